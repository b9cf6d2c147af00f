import TestSupport
import Tree
import Wire

@testable import ClientCore

/// A client whose every step is compared with a model that recomputes everything from the data received and written.
struct SyncModel {
    var client: SyncTree
    var server = SyncModelServer()
    var random: SeededGenerator
    var problems: [String] = []
    var log: [String] = []

    var replays: [RegistrationID: Replay] = [:]
    var pending: [PendingWrite] = []
    var requests: [SyncModelServer.Request] = []
    /// The messages in flight; the elements of each array belong to one state.
    var messages: [[SyncModelServer.Message]] = []
    /// The number of writes in the server's tree at each of these messages; `receivedSeq` is that of the last message
    /// received.
    var messageSeqs: [Int] = []
    var receivedSeq = 0
    /// The listens that receive their missed writes one after another, by their numbers: the number of writes received,
    /// and the data at that point.
    var after: [Int: (seq: Int, node: Node?)] = [:]
    /// The data that each listen has received, until it ends.
    var received: [(spec: QuerySpec, tag: ListenTag?, number: Int, node: Node?)] = []
    /// The numbers of the listens that the server has completed.
    var complete: Set<Int> = []
    private var lastListen = 0
    /// The hashes of the client's data when the listens were sent, by their numbers.
    var hashes: [Int: String] = [:]
    var bareListens = BareListens()
    /// The data that the client had received when it sent listens again to resume after it, by their numbers.
    var resumable: [Int: Node] = [:]
    var isConnected = true
    let numbers = Numbers()
    /// The storage that survives a restart, in models that have one.
    let store: OddStore?
    var cache: CacheManager?
    var transactions: TransactionQueue
    /// The sent transactions that the server has not answered.
    var sentTransactions: Set<WriteID> = []
    /// The paths of these transactions.
    var transactionPaths: [WriteID: Path] = [:]
    /// The number of outcomes that each transaction has had.
    var outcomes: [TransactionID: Int] = [:]
    let many: Int
    /// The data that the server has confirmed as unchanged, by the listens' numbers; the client is notified by the
    /// answer alone.
    var same: [Int: Node] = [:]
    /// The listens that were answered over this connection, by their numbers.
    var reported: Set<Int> = []
    /// The listens that were not answered yet when the server accepted a write to their data.
    var overtaken: Set<Int> = []
    /// The client's accepted writes that no listen's data contains yet.
    var accepted: [(id: WriteID, changes: [Change])] = []

    /// Whether there are many listeners at few paths, instead of few listeners at more paths.
    let isCrowded: Bool

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        isCrowded = seed % 2 == 1
        // The number of queries from which on an index finds them: 1, 3 or 100.
        many = [1, 3, 100][Int(seed % 3)]
        store = seed % 8 < 4 ? nil : OddStore()
        // Depending on the seed, the cache has to prune all the time, or never.
        store?.bytesFactor = seed % 8 < 6 ? 1 : 10_000
        cache = store.map { CacheManager(store: $0) }
        client = SyncTree(cache: cache, many: many)
        transactions = Self.transactions(client, numbers)
        _ = server.change(.root, .overwrite(node(depth: 3)))
    }

    mutating func step() {
        switch random.below(15) {
        case 0: listen()
        case 1: unlisten()
        case 2, 3: write()
        case 4: deliver(server.change(path(), .overwrite(node(depth: 2))))
        case 5: deliver(server.change(path(), .merge(changes())))
        case 6, 7, 8: perform()
        case 9: transact()
        case 10 where store != nil && random.oneIn(3): restart()
        case 11 where random.oneIn(3): if isConnected { loseConnection() } else { connect() }
        default: receive()
        }
    }

    /// Lets all messages arrive.
    mutating func settle() {
        if !isConnected { connect() }
        while !requests.isEmpty || !messages.isEmpty {
            perform()
            receive()
        }
        check(everything: true)
        checkTransactions()
    }

    private mutating func perform() {
        guard isConnected, !requests.isEmpty else { return }
        let request = requests.removeFirst()
        var hash: String?
        var known: Node?
        var saysNothing = false
        var seen: Int?
        if case .listen(_, _, let number) = request {
            seen = after[number]?.seq
            saysNothing = (hashes[number] ?? "").isEmpty && random.oneIn(2)
            if random.oneIn(2) {
                hash = hashes[number]
                known = resumable[number]
            }
        }
        let refuses = random.oneIn(4)
        deliver(
            server.perform(
                request, refuses: refuses, hash: hash, known: known, after: seen, saysNothing: saysNothing))
    }

    // MARK: Actions

    private mutating func listen() {
        guard replays.count < (isCrowded ? 24 : 8) else { return }
        let kinds: EventKinds = random.pick([.value, .allChildren, [.value, .allChildren], [.value, .allChildren]])
        let registration = Registration(
            id: numbers.registration(), spec: QuerySpec(path: path(), query: query()), kinds: kinds)
        listen(registration)
    }

    mutating func listen(_ registration: Registration) {
        replays[registration.id] = Replay(registration)
        let text = "\(Self.text(registration.spec)) \(registration.kinds.rawValue) #\(registration.id.rawValue)"
        follow(client.add(registration), "listen \(text)")
    }

    private mutating func unlisten() {
        let ids = replays.keys.sorted { $0.rawValue < $1.rawValue }
        guard !ids.isEmpty, let replay = replays.removeValue(forKey: random.pick(ids)) else { return }
        follow(client.remove(replay.registration), "unlisten #\(replay.registration.id.rawValue)")
    }

    private mutating func write() {
        var content: PendingWrite.Content = random.oneIn(2) ? .overwrite(node(depth: 2)) : .merge(changes())
        if random.oneIn(4) {
            let increment = Node.serverValue(ServerValue(.increment(.int(1 + Int64(random.below(3))))))
            content =
                random.oneIn(2) ? .overwrite(increment) : .merge([Change(path: Path([Key("b")]), value: increment)])
        }
        var location = path()
        if random.oneIn(6), location.depth > 0 {
            location = location.appending(.priority)
            content = .overwrite(priority(always: true))
        }
        let write = PendingWrite(id: numbers.write(), path: location, content: content)
        let counted = counted(write)
        pending.append(write)
        requests.append(.write(write))
        cache?.save(write)
        follow(client.apply(write, estimate: content), "write \(write.id.rawValue) \(write.path) \(Self.text(content))")
        checkCounted(write, counted)
        let paths = changes(of: write).map(\.path)
        follow(transactions.overridden(at: paths), "overridden")
    }

    mutating func deliver(_ group: [SyncModelServer.Message]) {
        guard !group.isEmpty else { return }
        messages.append(group)
        messageSeqs.append(server.seq)
    }

    private mutating func receive() {
        guard isConnected, !messages.isEmpty else { return }
        let message = messages[0].removeFirst()
        isWithinState = !messages[0].isEmpty
        if !isWithinState {
            messages.removeFirst()
            receivedSeq = messageSeqs.removeFirst()
        }
        switch message {
        case .data(let event, let spec, let tag, let number):
            // The connection drops late data of an ended listen.
            guard received.contains(where: { $0.number == number }) else { return }
            note(event, number)
            if after[number] == nil || reported.contains(number) { forgetAccepted(event, spec, number) }
            switch event {
            case .put(let location, let node):
                bareListens.heard(at: spec.path.appending(location), tag: tag)
                follow(
                    client.applyServer(node, at: spec.path.appending(location), tag: tag),
                    "put \(location) of \(Self.text(spec)) \(Self.text(node))")
            case .patch(let location, let changes):
                bareListens.heard(at: spec.path.appending(location), tag: tag)
                follow(
                    client.applyServer(changes, at: spec.path.appending(location), tag: tag),
                    "patch \(location) of \(Self.text(spec)) \(Self.text(.merge(changes)))")
            }
        case .same(let node, let spec, _, let number):
            guard received.contains(where: { $0.number == number }) else { break }
            log.append("same \(Self.text(spec)) \(Self.text(node))")
            same[number] = node
        case .complete(let spec, let tag, let number, let isNothing):
            // Answers of ended listens are dropped.
            guard received.contains(where: { $0.number == number }) else { break }
            completed(spec, tag, number, isNothing: isNothing)
        case .answer(let id, let isRefused):
            let paths = pending.first { $0.id == id }.map { changes(of: $0).map(\.path) } ?? []
            if !isRefused { noteAccepted(id) }
            pending.removeAll { $0.id == id }
            follow(client.acknowledge(id, isRefused: isRefused), "answer \(id.rawValue) \(isRefused)")
            for location in paths where isRefused { follow(transactions.dataChanged(at: location), "refused") }
        case .transactionAnswer(let id, let outcome):
            answer(id, outcome)
        }
        guard case .data(let event, let spec, _, _) = message else { return }
        let location =
            switch event {
            case .put(let location, _): location
            case .patch(let location, _): location
            }
        follow(transactions.dataChanged(at: spec.path.appending(location)), "changed")
    }

    /// Whether more messages of the same state are to come.
    var isWithinState = false

    mutating func follow(_ effects: SyncEffects, _ step: String, isOneStep: Bool = true) {
        guard problems.isEmpty else { return }
        cache?.commit()
        log.append(step)
        for listen in effects.listens {
            switch listen {
            case .start(let spec, let tag):
                log.append("  start \(Self.text(spec)) \(tag?.rawValue ?? 0)")
                lastListen += 1
                requests.append(.listen(spec, tag, lastListen))
                hashes[lastListen] = hash(of: spec)
                bareListens.sent(spec, tag: tag, isComplete: hashes[lastListen] != nil)
                client.sent(spec, tag: tag)
                received.append((spec, tag, lastListen, nil))
            case .stop(let spec, let tag):
                log.append("  stop \(Self.text(spec)) \(tag?.rawValue ?? 0)")
                bareListens.stopped(spec, tag: tag)
                requests.append(.unlisten(spec, tag))
                received.removeAll { $0.spec == spec && $0.tag == tag }
            }
        }
        for case .stop(let spec, _) in effects.listens { stopAccepted(spec) }
        for event in effects.events {
            log.append("  #\(event.registration.rawValue) \(event.kind) \(Self.text(event.node))")
        }
        let reported = Dictionary(grouping: effects.events, by: \.registration)
        for (id, events) in reported {
            guard var replay = replays[id] else {
                problems.append("#\(id.rawValue) is told after it left")
                continue
            }
            problems += replay.take(events, isOneStep: isOneStep).map { "#\(id.rawValue): \($0)" }
            replays[id] = replay
            problems += checkAccepted(replay, events).map { "#\(id.rawValue): \($0)" }
        }
        if !isWithinState { check(everything: false) }
    }
}
