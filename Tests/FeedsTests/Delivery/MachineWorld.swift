import LogStore
import TestSupport
import Tree

@testable import Feeds

/// A feed with its log, consumers, database row and owners, all in memory. Performs random actions on the real machine,
/// and compares the results with the contract.
final class MachineWorld {
    /// The reader's input: the records of a snapshot, or of an entry.
    struct Chunk {
        let seq: Int64
        let isSnapshot: Bool
        let messages: [FeedMessage]
    }

    /// A delivered message that its consumer has neither settled nor lost.
    struct Held {
        let consumer: String
        var deadline: Int64
        /// The sequence number of the delivery.
        let number: Int
        /// The connection of the delivery, or nil for a single request.
        let connection: Int?
    }

    /// The durable state.
    struct Row {
        var progress: FeedProgress
        var failedMessages: [FeedPosition: FailedMessage] = [:]
    }

    static let consumers = ["", "a", "b", "c"]
    var random: SeededGenerator
    let settings: FeedMachine.Settings
    let snapshot: Int64?
    var chunks: [Chunk] = []
    var messages: [FeedPosition: FeedMessage] = [:]
    var row: Row
    var machine: FeedMachine
    var now: Int64 = 1_000
    /// The reader's position: the next chunk, and the next message in it.
    var nextChunk = 0
    var nextOfChunk = 0
    var commit: FeedCommit?
    /// The acknowledged messages when the commit was taken.
    var acknowledgedWithCommit: Set<FeedPosition> = []
    /// Whether an administrator has changed failed messages since the machine was notified.
    var needsFailedMessages = false
    /// The maximum size of a page of retries; the page that was read and not yet accepted; its end; and whether more
    /// pages follow.
    let pageLimit: Int
    var page: FeedRetryPage?
    var pageEnd: FeedPosition?
    var hasMorePages = false
    var held: [FeedPosition: Held] = [:]
    var acknowledged: Set<FeedPosition> = []
    var durable: Set<FeedPosition> = []
    var dropped: Set<FeedPosition> = []
    var deliveries = 0
    /// The number of each message's last delivery.
    var lastDelivery: [FeedPosition: Int] = [:]
    var crashes = 0
    var takeovers = 0
    /// The open connections of each consumer, newest last; the newest connection, open or not; and the last id that
    /// each consumer received.
    var connections: [String: [Connection]] = [:]
    var newest: [String: Connection] = [:]
    var lastReceived: [String: FeedEventID] = [:]
    /// The consumers whose newest connection delivered that message, or was opened with its id.
    var mayNameMessage: Set<String> = []
    /// The ids that each consumer received earlier, on any connection.
    var receivedBefore: [String: [FeedEventID]] = [:]
    var connectionCount = 0
    /// The number of messages that were acknowledged by inference.
    var inferred = 0
    var counters = FeedMachine.Counters()
    var trace: [String] = []
    var problem: String?

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        var settings = FeedMachine.Settings()
        settings.namespace = "test"
        settings.ordersByKey = !random.oneIn(4)
        settings.maxAttempts = 1 + random.below(4)
        settings.firstBackoffMilliseconds = random.oneIn(3) ? 0 : 50
        settings.maxBackoffMilliseconds = 200
        settings.ackDeadlineMilliseconds = 100
        settings.stopsKeys = random.oneIn(2)
        settings.windowMessages = 4 + random.below(30)
        settings.mostHandedAhead = Int64(random.below(8))
        if random.oneIn(3) { settings.mostStored = Int64(random.below(4)) }
        pageLimit = random.oneIn(3) ? 1_000 : 1 + random.below(3)
        self.settings = settings
        snapshot = random.oneIn(3) ? 3 : nil
        row = Row(progress: FeedProgress(seq: snapshot.map { $0 - 1 } ?? 0, snapshotSeq: snapshot))
        machine = FeedMachine(settings, from: row.progress)
        if let snapshot { addChunk(seq: snapshot, isSnapshot: true, count: random.below(12)) }
        begin()
    }

    var moment: FeedMachine.Moment { FeedMachine.Moment(monotonic: now, unix: 1_000_000 + now) }
    var head: Int64 { chunks.last?.seq ?? 0 }

    func key(_ position: FeedPosition) -> String { settings.ordersByKey ? messages[position]?.key ?? "" : "" }

    /// Returns the newest known state of a failed message.
    func failedMessage(_ position: FeedPosition) -> FailedMessage? {
        for changes in [machine.failedMessages, machine.failedMessagesInFlight] {
            switch changes[position] {
            case .put(let failedMessage): return failedMessage
            case .remove: return nil
            case nil: break
            }
        }
        return row.failedMessages[position]
    }

    func check(_ holds: Bool, _ what: @autoclosure () -> String) {
        if !holds, problem == nil { problem = what() }
    }

    func note(_ text: @autoclosure () -> String) { trace.append(text()) }

    // MARK: The log and its reader

    func addChunk(seq: Int64, isSnapshot: Bool, count: Int) {
        var made: [FeedMessage] = []
        var index: Int64 = 0
        for _ in 0..<count {
            // Records that the filter excludes are numbered as well.
            index += Int64(random.below(3))
            let position = FeedPosition(seq: seq, index: index, isSnapshot: isSnapshot)
            let key = "k\(random.below(4))"
            let message = FeedMessage(
                position: position, key: key, content: .stored(Array("{\"key\":\"\(key)\"}".utf8)))
            made.append(message)
            messages[position] = message
            index += 1
        }
        chunks.append(Chunk(seq: seq, isSnapshot: isSnapshot, messages: made))
    }

    func append() {
        let seq = (chunks.last?.seq ?? 0) + 1
        addChunk(seq: seq, isSnapshot: false, count: random.oneIn(6) ? random.below(9) : random.below(3))
        note("append \(seq): \(chunks[chunks.count - 1].messages.map { "\($0.position.index)=\($0.key)" })")
    }

    /// Lets the reader add messages within the budget.
    func read(atMost most: Int) {
        var count = 0
        while nextChunk < chunks.count, count < most {
            let chunk = chunks[nextChunk]
            while nextOfChunk < chunk.messages.count, count < most, machine.room > 0, machine.byteRoom > 0 {
                let message = chunk.messages[nextOfChunk]
                nextOfChunk += 1
                count += 1
                let failedMessage = row.failedMessages[message.position].flatMap { $0.state == .failing ? $0 : nil }
                machine.push(message, failed: failedMessage, now: moment)
                note("push \(message.position.id(in: "")) \(message.key)")
            }
            guard nextOfChunk == chunk.messages.count else { return }
            note("read \(chunk.seq)")
            if chunk.isSnapshot {
                machine.readSnapshot(at: LogPosition(seq: chunk.seq))
            } else {
                machine.read(to: LogPosition(seq: chunk.seq))
            }
            nextChunk += 1
            nextOfChunk = 0
        }
    }

    // MARK: Owners

    /// State that a run passes to the next one on the same gateway.
    struct Inheritance {
        let positions: Set<FeedPosition>?
        let overtaken: OvertakingNotes
        let deliveries: [FeedPosition: UInt64]
        let keys: Set<FeedKey>
        let until: Int64
    }

    /// Whether the machine knows exactly which messages are outstanding.
    var knowsWhatIsOut: Bool {
        machine.adoptedPositions != nil || machine.adoptedThrough == 0 || machine.adoptedUntil <= now
    }

    /// Starts an owner from the row.
    func begin(_ inheritance: Inheritance? = nil) {
        // Whether a stored message is outstanding is not recorded if its position is done.
        held = held.filter { failedMessage($0.key).map { $0.state == .failing } ?? true }
        let former = min(row.progress.handedTo, head)
        row.progress.handedTo = max(row.progress.handedTo, head)
        machine = FeedMachine(
            settings, from: row.progress, adoptedThrough: former > row.progress.seq ? former : 0,
            adoptedUntil: max(now + settings.ackDeadlineMilliseconds, inheritance?.until ?? 0),
            firstDelivery: UInt64(takeovers) << 32)
        machine.adoptedPositions = inheritance?.positions
        machine.adoptedKeys = inheritance?.keys ?? []
        machine.overtaken = inheritance?.overtaken ?? OvertakingNotes()
        machine.formerDeliveries = inheritance?.deliveries ?? [:]
        let first = readPage(after: nil)
        machine.stored = stored
        machine.blockedKeys = first.overview?.blockedKeys ?? []
        machine.unread = first.unread(after: machine.unread)
        for failedMessage in first.failedMessages { machine.retry(failedMessage, mayBeOut: former > row.progress.seq) }
        pageEnd = first.last
        hasMorePages = first.hasMore
        page = nil
        needsFailedMessages = false
        commit = nil
        let progress = row.progress
        acknowledged = Set(messages.keys.filter { progress.isDone($0) && row.failedMessages[$0] == nil })
        check(durable.isSubset(of: acknowledged), "acknowledgements that were durable are lost")
        nextOfChunk = 0
        if let snapshot = progress.snapshotSeq {
            nextChunk = chunks.firstIndex { $0.seq == snapshot && $0.isSnapshot } ?? 0
            nextOfChunk =
                chunks[nextChunk].messages.firstIndex { $0.position.index >= progress.index }
                ?? chunks[nextChunk].messages.count
        } else {
            nextChunk = chunks.firstIndex { !$0.isSnapshot && $0.seq > progress.seq } ?? chunks.count
        }
        note("begin at \(progress.seq):\(progress.index) snapshot \(progress.snapshotSeq ?? -1) handed to \(former)")
    }

    func crash() {
        // The commit in flight may have succeeded.
        if random.oneIn(2), commit != nil { finishCommit() }
        note("crash")
        takeovers += 1
        crashes += 1
        begin()
    }

    func stop() {
        if commit != nil { finishCommit() }
        note("stop")
        takeovers += 1
        take(isLast: true)
        finishCommit()
        begin()
    }

    /// Changes the definition while a write is in flight, which is then refused. The same gateway continues with a new
    /// machine.
    func redefine() {
        if random.oneIn(2), commit != nil { finishCommit() }
        let positions = knowsWhatIsOut ? machine.heldPositions.union(machine.adoptedPositions ?? []) : nil
        note("redefine, with \(positions?.sorted().map { $0.id(in: "") } ?? []) out")
        takeovers += 1
        crashes += 1
        begin(
            Inheritance(
                positions: positions, overtaken: machine.overtaken, deliveries: machine.heldDeliveries,
                keys: machine.heldKeys.union(machine.adoptedKeys), until: machine.adoptedUntil))
    }

    // MARK: Durable state

    func take(isLast: Bool = false) {
        guard let taken = machine.takeProgress(isLast: isLast) else {
            return check(false, "\(machine.fault.map { "\($0)" } ?? "nothing is recorded, without a fault")")
        }
        acknowledgedWithCommit = acknowledged
        let progress = taken.progress
        note("take \(progress.seq):\(progress.index) done \(progress.done.ranges.count) handed to \(progress.handedTo)")
        for (position, message) in messages {
            let isResolved =
                acknowledged.contains(position) || failedMessage(position).map { $0.state != .failing } ?? false
            check(
                progress.isDone(position) == isResolved,
                "\(message.position) is \(isResolved ? "" : "not ")done, and the progress says otherwise")
        }
        commit = taken
    }

    func finishCommit() {
        guard let commit else { return }
        // The writing thread has read the page earlier.
        takePage()
        note("commit")
        row.progress = commit.progress
        for (position, change) in commit.failedMessages {
            switch change {
            case .put(let failedMessage): put(failedMessage)
            case .remove: row.failedMessages[position] = nil
            }
        }
        counters.delivered += commit.counters.delivered
        counters.acknowledged += commit.counters.acknowledged
        durable = acknowledgedWithCommit
        machine.committed(commit)
        self.commit = nil
    }

    /// Stores a failed message as the database does: an existing row is not written again, and a removed one does not
    /// return.
    private func put(_ failedMessage: FailedMessage) {
        let former = row.failedMessages[failedMessage.position]
        if failedMessage.message == nil, failedMessage.state == .retry, former?.state != .retry { return }
        row.failedMessages[failedMessage.position] = FailedMessage(
            position: failedMessage.position, key: failedMessage.key, state: failedMessage.state,
            attempts: failedMessage.attempts,
            failures: failedMessage.failures, message: failedMessage.message ?? former?.message)
    }

    var retried: [FailedMessage] {
        row.failedMessages.values.filter { $0.state == .retry }.sorted { $0.position < $1.position }
    }
    var stored: FeedMachine.Stored {
        FeedMachine.Stored(
            count: Int64(row.failedMessages.values.filter { $0.state == .dead || $0.state == .blocked }.count))
    }
    var blockedKeys: Set<FeedKey> {
        Set(row.failedMessages.values.filter { $0.state == .dead || $0.state == .blocked }.map { FeedKey($0.key) })
    }

    func revive() {
        let dead = Set(row.failedMessages.values.filter { $0.state == .dead }.map(\.key))
        for failedMessage in row.failedMessages.values
        where failedMessage.state == .blocked && !dead.contains(failedMessage.key) {
            row.failedMessages[failedMessage.position] = failedMessage.with(.retry)
        }
    }

    /// Blocks retries after a dead message of their key, as the database does before the first page is read.
    private func setAside() {
        for failedMessage in row.failedMessages.values where failedMessage.state == .retry {
            let isAfter = row.failedMessages.values.contains {
                $0.state == .dead && $0.key == failedMessage.key && $0.position < failedMessage.position
            }
            if isAfter { row.failedMessages[failedMessage.position] = failedMessage.with(.blocked) }
        }
    }

    /// Lets an administrator retry or drop dead messages.
    func administer() {
        let dead = row.failedMessages.values.filter { $0.state == .dead }.sorted { $0.position < $1.position }
        guard !dead.isEmpty else { return }
        let one = random.pick(dead)
        // A message that was set aside before its key's dead messages is delivered once none of these is left.
        let isAlone = row.failedMessages.values.allSatisfy {
            $0.key != one.key || $0.state != .blocked || one.position < $0.position
        }
        let chosen =
            switch random.below(4) {
            case 0 where isAlone: [one]
            case 0, 1: dead.filter { $0.key == one.key }
            default: dead
            }
        let drops = random.oneIn(3)
        for failedMessage in chosen {
            if drops {
                row.failedMessages[failedMessage.position] = nil
                acknowledged.insert(failedMessage.position)
                dropped.insert(failedMessage.position)
            } else {
                row.failedMessages[failedMessage.position] = failedMessage.with(.retry)
            }
        }
        note("\(drops ? "drop" : "retry") \(chosen.map { $0.position.id(in: "") })")
        revive()
        needsFailedMessages = true
    }

    // MARK: Pages of failed messages

    /// Reads a page if the machine needs one. The page is accepted immediately or later.
    func readFailedMessages() {
        guard page == nil else { return takePage() }
        if needsFailedMessages {
            needsFailedMessages = false
            page = readPage(after: nil)
        } else if hasMorePages || machine.rereadsRetries, machine.readyRetryCount < max(1, pageLimit / 2) {
            page = readPage(after: machine.rereadsRetries ? nil : pageEnd)
            machine.rereadsRetries = false
        }
        if random.oneIn(2) { takePage() }
    }

    private func readPage(after position: FeedPosition?) -> FeedRetryPage {
        if position == nil {
            revive()
            if settings.stopsKeys { setAside() }
        }
        let all = retried.filter { failedMessage in position.map { $0 < failedMessage.position } ?? true }
        let failedMessages = Array(all.prefix(pageLimit))
        var page = FeedRetryPage(
            failedMessages: failedMessages, after: position, last: failedMessages.last?.position ?? position,
            hasMore: failedMessages.count == pageLimit)
        guard position == nil else { return page }
        var overview = FeedRetryPage.Overview(stored: stored)
        if settings.stopsKeys {
            overview.blockedKeys = blockedKeys
            for failedMessage in all.dropFirst(pageLimit) {
                overview.lastOfKeys?[FeedKey(failedMessage.key)] = failedMessage.position
            }
            if all.count > pageLimit, random.oneIn(8) { overview.lastOfKeys = nil }
        }
        page.overview = overview
        return page
    }

    private func takePage() {
        guard let page else { return }
        self.page = nil
        guard page.after == nil || page.after == pageEnd else { return }
        let names = page.failedMessages.map { $0.position.id(in: "") }
        note("page after \(page.after?.id(in: "") ?? "-"): \(names), blocked \(page.overview?.blockedKeys ?? [])")
        machine.failedMessagesChanged(
            retried: page.failedMessages, unread: page.unread(after: machine.unread),
            blocked: page.overview?.blockedKeys)
        if let overview = page.overview { machine.storedChanged(overview.stored) }
        machine.advance(to: moment)
        pageEnd = page.last
        hasMorePages = page.hasMore
    }
}

extension FailedMessage {
    /// Returns the failed message in another state, as the database stores it.
    func with(_ state: State) -> FailedMessage {
        FailedMessage(position: position, key: key, state: state, attempts: 0, failures: failures, message: message)
    }
}
