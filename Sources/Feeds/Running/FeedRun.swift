import LogStore
import Runtime

/// A feed that runs on this gateway: its machine, the pulls that wait for messages, and the requests that wait until progress is
/// recorded. Belongs to the dispatcher's thread.
final class FeedRun {
    let name: FeedName
    private let uid: String
    private let createdAt: Int64
    let claim: FeedClaim
    let definition: FeedDefinition
    let sink: (any Sink)?
    /// The claim of this run, and the claims of runs whose deliveries it has inherited.
    let claims: Set<FeedClaim>
    /// The outcomes of inherited deliveries whose messages the reader has not brought yet.
    var inherited: [FeedPosition: SinkOutcome] = [:]
    /// The messages that have arrived at the sink without being recorded as done, and those that are being recorded.
    var arrived: Set<FeedPosition> = []
    var arrivedBeingWritten: Set<FeedPosition> = []
    private let window: FeedWindow
    private var retried: FeedRetryPage
    private var isReadingRetries = false
    let machine: FeedMachine
    var waiting = WaitingPulls()
    /// Called once the progress up to now is recorded (true), or will not be recorded (false).
    var settled: [@Sendable (Bool) -> Void] = []
    /// Called once the progress that is being recorded is durable (true), or if it will not be recorded (false).
    var settling: [@Sendable (Bool) -> Void] = []
    var isBeingWritten = false
    /// The stored messages that are being removed.
    var beingRemoved: Set<FeedPosition> = []
    var staleSince: Int64?
    var deliveriesInFlight = 0
    /// The time until which the circuit breaker suspends deliveries to the sink.
    var sinkRestsUntil: Int64 = 0
    /// The time until which deliveries wait for a resource that other feeds use now, such as a client.
    var sinkWaitsUntil: Int64 = 0
    /// Decides whether deliveries to the sink are attempted at all.
    var breaker: CircuitBreaker
    private var generator = SystemRandomNumberGenerator()
    var trouble: String?
    /// Whether the log states that there is no room for more dead letters.
    var saysShortOfRoom = false
    /// Whether the dispatcher processes the run in this turn, and whether it has progress of the run to record.
    var isTouched = false
    var isUnwritten = false
    /// The time at which the dispatcher next processes the run without a command.
    var scheduledAt: Int64 = .max

    /// - Parameter inheritance: The state left by an earlier run on this gateway, if it suits the start.
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
        machine.adoptedPositions = inheritance?.positions
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
        for failedMessage in start.retried.failedMessages {
            machine.retry(failedMessage, mayBeOut: start.adoptedThrough > 0)
            applyInherited(failedMessage.position, now)
        }
    }

    /// Returns whether a caller may consume this feed.
    func isOpen(to access: FeedAccess) -> Bool { access.admits(uid: uid, createdAt: createdAt) }

    /// Adds the messages that the reader has found.
    func take(_ finding: FoundMessages, _ now: FeedMachine.Moment) {
        for message in finding.messages {
            machine.push(message, failed: finding.failedMessages[message.position], now: now)
            applyInherited(message.position, now)
        }
        if let cursor = finding.readTo {
            if finding.hasReadSnapshot { machine.readSnapshot(at: cursor) } else { machine.read(to: cursor) }
        }
        // `readerMayContinue` decides afterwards whether the reader may resume.
        window.take(finding.messages.count, bytes: finding.bytes)
    }

    /// Adds a page of retries.
    func take(_ page: FeedRetryPage, _ now: FeedMachine.Moment) {
        isReadingRetries = false
        // A page that was requested before the first page was read again would move the cursor past retries that were not read.
        guard page.after == nil || page.after == retried.last else { return }
        // Messages that are done may be in the page, because it was read before they were removed.
        machine.failedMessagesChanged(
            retried: page.failedMessages.filter { !isRemoving($0.position) },
            unread: page.unread(after: machine.unread),
            blocked: page.overview?.blockedKeys)
        if let overview = page.overview { machine.storedChanged(overview.stored) }
        retried = page
        for failedMessage in page.failedMessages { applyInherited(failedMessage.position, now) }
    }

    /// Returns the next page to read once most of the read retries are done, or nil if none is needed.
    func retriesWanted() -> FeedRetryRequest? {
        guard retried.hasMore || machine.rereadsRetries, !isReadingRetries,
            machine.readyRetryCount < FeedRetryPage.failedMessagesAtOnce / 2,
            machine.readyRetryCount == 0 || window.hasRoom
        else { return nil }
        isReadingRetries = true
        let position = machine.rereadsRetries ? nil : retried.last
        machine.rereadsRetries = false
        return FeedRetryRequest(claim: claim, after: position, stopsKeys: machine.settings.stopsKeys)
    }

    /// Reports the room to the window. Returns whether the reader is waiting and can resume.
    func readerMayContinue() -> Bool {
        window.mayContinue(
            room: machine.room, bytes: machine.byteRoom, enough: max(1, machine.settings.windowMessages / 16))
    }

    /// Delivers messages to the waiting pulls, in the order of their arrival.
    ///
    /// - Returns: The number of seats that the served pulls had.
    func serve(_ now: FeedMachine.Moment) -> Int {
        for consumer in machine.takeReleases() { waiting.wake(consumer, holding: held(by: consumer)) }
        var seats = 0
        while machine.hasReady, let pull = waiting.first {
            let free = pull.mostHeld.map { $0 - held(by: pull.consumer) } ?? pull.most
            // A consumer at its `mostHeld` limit waits until it has settled some messages.
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

    /// Removes a pull that has been cancelled.
    ///
    /// - Returns: Whether it had a seat.
    func cancel(_ id: UInt64) -> Bool { waiting.remove(id, held: held)?.hasSeat ?? false }

    private func delivery(_ delivery: FeedMachine.Delivery) -> FeedDelivery {
        FeedDelivery(
            message: delivery.message, attempt: delivery.attempt, namespace: name.namespace, number: delivery.number)
    }

    /// Returns whether a message is done and its stored copy is being removed.
    func isRemoving(_ position: FeedPosition) -> Bool {
        if case .remove = machine.failedMessages[position] { return true }
        return beingRemoved.contains(position)
    }

    /// Answers the pulls whose deadline has passed.
    ///
    /// - Returns: The number of seats that they had.
    func expire(_ now: Int64) -> Int {
        let over = waiting.expire(at: now, held: held)
        for one in over { one.completion(.success([])) }
        return over.count(where: \.hasSeat)
    }

    /// Passes the overall result of a delivery to the circuit breaker. If any message arrived, the sink is available.
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
        // No message was sent, so the delivery says nothing about the sink. This feed or others may be using all slots and clients.
        breaker.notSent(at: now)
        sinkWaitsUntil = now + Self.sinkPauseMilliseconds
        if trouble == nil { trouble = "The feed's messages wait for a free slot or client of the gateway." }
    }

    /// The pause after a delivery that sent no message.
    private static let sinkPauseMilliseconds: Int64 = 500

    /// Ends the run. The waiting pulls have already been removed.
    func end() {
        window.close()
        for body in settling + settled { body(false) }
        settling = []
        settled = []
    }

    /// The time at which the run next has something due, in monotonic milliseconds.
    var nextDue: Int64 {
        var due = machine.nextDue ?? .max
        if let deadline = waiting.nextDeadline { due = min(due, deadline) }
        if let sink, machine.hasReady, deliveriesInFlight < sink.concurrency {
            due = min(due, max(sinkRestsUntil, sinkWaitsUntil))
        }
        if let staleSince { due = min(due, staleSince + FeedRun.staleMilliseconds) }
        return due
    }

    /// The approximate maximum size of the messages delivered at once, in bytes. A single message may be larger.
    static let answerBytes = 4 << 20

    /// How long recording the read position may be delayed.
    static let staleMilliseconds: Int64 = 1_000

    /// The problem that keeps the feed from making progress.
    private var failure: String? {
        guard machine.isShortOfRoom else { return trouble }
        return
            "The feed has reached its limit of dead letters: \(machine.stored.count), with \(machine.stored.bytes) bytes. "
            + "Retry or drop some."
    }

    /// The maximum number of consumers that a report names.
    private static let reportedConsumers = 100

    /// Returns a report on the feed. The cost does not depend on the number of messages and consumers.
    ///
    /// - Parameter namesConsumers: Whether to name some of the consumers, in no particular order.
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
    /// The time at which the entry was committed, or nil if only the stored text contains it.
    var committedAt: Milliseconds? {
        if case .change(let change) = content { change.committedAt } else { nil }
    }
}
