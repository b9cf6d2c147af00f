import LogStore
import Runtime

/// A feed that is worked here: its machine, who waits for messages, and who waits until something is written down. Belongs to the
/// dispatcher's thread.
final class FeedRun {
    let name: FeedName
    private let uid: String
    private let createdAt: Int64
    let claim: FeedClaim
    let definition: FeedDefinition
    let sink: (any Sink)?
    /// This run, and those whose deliveries it has taken over.
    let claims: Set<FeedClaim>
    /// Outcomes of deliveries that it has taken over, of messages that the reader has not brought yet.
    var inherited: [FeedPosition: SinkOutcome] = [:]
    /// What the sink has and is not written down, and the same of what is being written.
    var arrived: Set<FeedPosition> = []
    var arrivedBeingWritten: Set<FeedPosition> = []
    private let window: FeedWindow
    private var retried: FeedRetryPage
    private var isReadingRetries = false
    let machine: FeedMachine
    var waiting = WaitingPulls()
    /// To be told when what has happened up to now is written down.
    var settled: [@Sendable (Bool) -> Void] = []
    /// The same, of what is being written now.
    var settling: [@Sendable (Bool) -> Void] = []
    var isBeingWritten = false
    /// Letters that are being removed.
    var beingRemoved: Set<FeedPosition> = []
    var staleSince: Int64?
    var deliveriesUnderWay = 0
    /// The sink is left alone until then.
    var sinkRestsUntil: Int64 = 0
    /// Deliveries wait until then for something that other feeds have now, such as a client.
    var sinkWaitsUntil: Int64 = 0
    /// Whether it is worth while to deliver to the sink at all.
    var breaker: CircuitBreaker
    private var generator = SystemRandomNumberGenerator()
    var trouble: String?
    /// Whether the log says that there is no room for more dead letters.
    var saysShortOfRoom = false
    /// Whether the desk looks at it in this turn, or has to write something of it down.
    var isTouched = false
    var isUnwritten = false
    /// When the desk looks at it next without being told.
    var scheduledAt: Int64 = .max

    /// - Parameter inheritance: What an earlier run on this gateway has left, where that suits the start.
    init(_ start: FeedRunStart, _ inheritance: FeedInheritance? = nil, _ now: FeedMachine.Moment) {
        name = start.name
        uid = start.uid
        createdAt = start.createdAt
        claim = start.claim
        definition = start.definition
        claims = (inheritance?.claims ?? []).union([start.claim])
        sink = start.sink
        window = start.window
        retried = start.retried
        machine = FeedMachine(
            start.settings, from: start.progress, adoptedThrough: start.adoptedThrough,
            adoptedUntil: max(start.adoptedUntil, inheritance?.until ?? 0),
            firstDelivery: UInt64(truncatingIfNeeded: start.claim.generation) << 32)
        machine.adoptedPlaces = inheritance?.places
        machine.adoptedKeys = inheritance?.keys ?? []
        machine.overtaken = inheritance?.overtaken ?? OvertakingNotes()
        machine.formerDeliveries = inheritance?.deliveries ?? [:]
        inherited = inheritance?.outcomes ?? [:]
        if let overview = start.retried.overview {
            machine.blockedKeys = overview.blockedKeys
            machine.stored = overview.stored
        }
        machine.unread = start.retried.unread(after: machine.unread)
        var settings = CircuitBreaker.Settings()
        settings.probeMilliseconds = (start.sink?.timeoutMilliseconds ?? 0) + 5_000
        breaker = CircuitBreaker(settings, at: now.monotonic)
        for letter in start.retried.letters {
            machine.retry(letter, mayBeOut: start.adoptedThrough > 0)
            applyInherited(letter.position, now)
        }
    }

    /// Whether a caller may consume this feed.
    func isOpen(to access: FeedAccess) -> Bool { access.admits(uid: uid, createdAt: createdAt) }

    /// Takes messages in that the reader has found. True where the reader waits and can go on.
    func take(_ finding: LaneFinding, _ now: FeedMachine.Moment) {
        for message in finding.messages {
            machine.push(message, failed: finding.letters[message.position], now: now)
            applyInherited(message.position, now)
        }
        if let cursor = finding.readTo {
            if finding.hasReadSnapshot { machine.readSnapshot(at: cursor) } else { machine.read(to: cursor) }
        }
        // Whether the reader may go on is said in the end, by `readerMayGoOn`.
        window.take(finding.messages.count, bytes: finding.bytes)
    }

    /// Takes in what is to be delivered once more.
    func take(_ page: FeedRetryPage, _ now: FeedMachine.Moment) {
        isReadingRetries = false
        // A page that was asked for before the first page was read again moves the cursor past letters that no one has read.
        guard page.after == nil || page.after == retried.last else { return }
        // What is done was read before it was removed.
        machine.lettersChanged(
            retried: page.letters.filter { !isRemoving($0.position) }, unread: page.unread(after: machine.unread),
            blocked: page.overview?.blockedKeys)
        if let overview = page.overview { machine.storedChanged(overview.stored) }
        retried = page
        for letter in page.letters { applyInherited(letter.position, now) }
    }

    /// The page of that which is wanted, where most of what was read is done; nil where none is.
    func retriesWanted() -> FeedRetryRequest? {
        guard retried.hasMore || machine.rereadsRetries, !isReadingRetries,
            machine.readyRetryCount < FeedRetryPage.lettersAtOnce / 2, machine.readyRetryCount == 0 || window.hasRoom
        else { return nil }
        isReadingRetries = true
        let place = machine.rereadsRetries ? nil : retried.last
        machine.rereadsRetries = false
        return FeedRetryRequest(claim: claim, after: place, stopsKeys: machine.settings.stopsKeys)
    }

    /// Says how much room there is. True where the reader waits and can go on.
    func readerMayGoOn() -> Bool {
        window.mayGoOn(
            room: machine.room, bytes: machine.byteRoom, enough: max(1, machine.settings.windowMessages / 16))
    }

    /// Hands messages to the pulls that wait, in the order of their arrival.
    ///
    /// - Returns: The number of seats that the served pulls had.
    func serve(_ now: FeedMachine.Moment) -> Int {
        for consumer in machine.takeReleases() { waiting.wake(consumer, holding: held(by: consumer)) }
        var seats = 0
        while machine.hasReady, let pull = waiting.first {
            let free = pull.mostHeld.map { $0 - held(by: pull.consumer) } ?? pull.most
            // A consumer that holds as much as it may waits until it has settled some.
            guard free > 0 else {
                waiting.park(pull.id)
                machine.recordsReleases = true
                continue
            }
            let deliveries = machine.pull(
                min(pull.most, free), mostBytes: Self.answerBytes, by: pull.consumer, pull.opening, now: now)
            guard !deliveries.isEmpty, let served = waiting.take(pull.id) else { break }
            if served.hasSeat { seats += 1 }
            served.completion(.success(deliveries.map(delivery)))
        }
        if !waiting.hasParked { machine.recordsReleases = false }
        return seats
    }

    private func held(by consumer: String) -> Int { machine.holders[consumer]?.count ?? 0 }

    /// Takes a pull out that no one waits for any more.
    ///
    /// - Returns: Whether it had a seat.
    func cancel(_ id: UInt64) -> Bool { waiting.remove(id, held: held)?.hasSeat ?? false }

    private func delivery(_ delivery: FeedMachine.Delivery) -> FeedDelivery {
        FeedDelivery(
            message: delivery.message, attempt: delivery.attempt, namespace: name.namespace, number: delivery.number)
    }

    /// Whether a message is done, and its letter on its way out.
    func isRemoving(_ position: FeedPosition) -> Bool {
        if case .remove = machine.letters[position] { return true }
        return beingRemoved.contains(position)
    }

    /// Answers the pulls whose deadline has come.
    ///
    /// - Returns: The number of seats that they had.
    func expire(_ now: Int64) -> Int {
        let over = waiting.expire(at: now, held: held)
        for one in over { one.completion(.success([])) }
        return over.count(where: \.hasSeat)
    }

    /// Notes how a delivery went as a whole: one of which something arrived shows that the sink is there.
    func judge(_ outcomes: [SinkOutcome], _ now: Int64) {
        var failed = false
        var pause: Milliseconds?
        for outcome in outcomes {
            switch outcome {
            case .delivered: return breaker.succeeded(at: now)
            case .failed(_, let delay):
                failed = true
                if let delay { pause = max(pause ?? 0, delay) }
            case .refused, .unavailable: failed = true
            case .notSent: break
            }
        }
        if failed { return breaker.failed(at: now, retryAfterMilliseconds: pause, using: &generator) }
        guard !outcomes.isEmpty else { return }
        // Nothing was sent, which says nothing about the other side. Slots and clients may be in use by this feed or by others.
        breaker.notSent(at: now)
        sinkWaitsUntil = now + Self.sinkPauseMilliseconds
        if trouble == nil { trouble = "Its messages wait for a slot or a client of the gateway." }
    }

    /// The pause after a delivery of which nothing could be tried.
    private static let sinkPauseMilliseconds: Int64 = 500

    /// Another works the feed from now on, or nobody; who waits for messages has been taken out.
    func end() {
        window.close()
        for body in settling + settled { body(false) }
        settling = []
        settled = []
    }

    /// When something is due next.
    var nextDue: Int64 {
        var due = machine.nextDue ?? .max
        if let deadline = waiting.nextDeadline { due = min(due, deadline) }
        if let sink, machine.hasReady, deliveriesUnderWay < sink.concurrency {
            due = min(due, max(sinkRestsUntil, sinkWaitsUntil))
        }
        if let staleSince { due = min(due, staleSince + FeedRun.staleMilliseconds) }
        return due
    }

    /// About how many bytes of messages are handed out at once, unless one message has more.
    static let answerBytes = 4 << 20

    /// How long it may take until it is written down that the log was read.
    static let staleMilliseconds: Int64 = 1_000

    /// What keeps the feed from its work.
    private var failure: String? {
        guard machine.isShortOfRoom else { return trouble }
        return
            "There is no room for more dead letters: they are \(machine.stored.count), with \(machine.stored.bytes) bytes. "
            + "Retry or drop some."
    }

    /// How many consumers a report names.
    private static let reportedConsumers = 100

    /// How the feed fares. Costs the same however many messages and consumers it has.
    ///
    /// - Parameter namesConsumers: Whether some of the consumers are named, in no particular order.
    func report(namesConsumers: Bool) -> FeedReport {
        let oldest = machine.oldest
        let consumers = namesConsumers ? Array(machine.holders.keys.prefix(Self.reportedConsumers)) : []
        return FeedReport(
            feed: name, feedID: claim.feed, state: failure == nil ? "running" : "failing", message: failure,
            seq: oldest.map { $0.position.seq - 1 } ?? machine.readTo.seq, readTo: machine.readTo.seq,
            pending: machine.pendingCount, held: machine.heldCount, consumers: consumers,
            consumerCount: machine.holders.count, oldestID: oldest?.position.id(in: name.namespace),
            oldestAt: oldest?.committedAt, setAside: machine.blockedKeys.count)
    }
}

extension FeedMessage {
    /// When its entry was committed; nil where that is only in its text.
    var committedAt: Milliseconds? {
        if case .change(let change) = content { change.committedAt } else { nil }
    }
}
