import LogStore
import Runtime

/// A feed that is worked here: its machine, who waits for messages, and who waits until something is written down. Belongs to the
/// dispatcher's thread.
final class FeedRun {
    struct Waiting {
        let pull: FeedPull
        let completion: @Sendable (Result<[FeedDelivery], FeedRefusalError>) -> Void
    }

    let name: FeedName
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
    var waiting: [Waiting] = []
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
    /// No delivery begins before then, because one was not sent.
    var sinkPausesUntil: Int64 = 0
    /// Whether it is worth while to deliver to the sink at all.
    var breaker: CircuitBreaker
    private var generator = SystemRandomNumberGenerator()
    var trouble: String?
    /// Whether the desk looks at it in this turn, or has to write something of it down.
    var isTouched = false
    var isUnwritten = false
    /// When the desk looks at it next without being told.
    var scheduledAt: Int64 = .max

    /// - Parameter inheritance: What an earlier run on this gateway has left, where that suits the start.
    init(_ start: FeedRunStart, _ inheritance: FeedInheritance? = nil, _ now: FeedMachine.Moment) {
        name = start.name
        claim = start.claim
        definition = start.definition
        claims = (inheritance?.claims ?? []).union([start.claim])
        sink = start.sink
        window = start.window
        retried = start.retried
        machine = FeedMachine(
            start.settings, from: start.progress, adoptedThrough: start.adoptedThrough,
            adoptedUntil: max(start.adoptedUntil, inheritance?.until ?? 0))
        machine.adoptedPlaces = inheritance?.places
        machine.adoptedKeys = inheritance?.keys ?? []
        inherited = inheritance?.outcomes ?? [:]
        machine.blockedKeys = start.blockedKeys
        var settings = CircuitBreaker.Settings()
        settings.probeMilliseconds = (start.sink?.timeoutMilliseconds ?? 0) + 5_000
        breaker = CircuitBreaker(settings, at: now.monotonic)
        for letter in start.retried.letters {
            machine.retry(letter, mayBeOut: start.adoptedThrough > 0)
            applyInherited(letter.position, now)
        }
    }

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
    func take(_ page: FeedRetryPage, blocked: Set<FeedKey>?) {
        // What is done was read before it was removed.
        machine.lettersChanged(
            retried: page.letters.filter { !isRemoving($0.position) }, blocked: blocked ?? machine.blockedKeys)
        retried = page
        isReadingRetries = false
    }

    /// Behind which place more of that is wanted, where most of what was read is done; nil where nothing is.
    func retriesWanted() -> FeedPosition? {
        guard retried.hasMore, !isReadingRetries, machine.retryCount < FeedRetryPage.lettersAtOnce / 2 else {
            return nil
        }
        isReadingRetries = true
        return retried.last
    }

    /// Says how much room there is. True where the reader waits and can go on.
    func readerMayGoOn() -> Bool {
        window.mayGoOn(
            room: machine.room, bytes: machine.byteRoom, enough: max(1, machine.settings.windowMessages / 16))
    }

    /// Gives messages to those who wait, first come first served.
    func serve(_ now: FeedMachine.Moment) {
        var index = 0
        while index < waiting.count, machine.hasReady {
            let pull = waiting[index].pull
            // Who has as much as it may hold waits until it acknowledges some.
            let free = pull.mostHeld.map { $0 - (machine.holders[pull.consumer]?.slots.count ?? 0) } ?? pull.most
            let deliveries =
                free > 0
                ? machine.pull(min(pull.most, free), mostBytes: Self.answerBytes, by: pull.consumer, now: now) : []
            guard !deliveries.isEmpty else {
                index += 1
                continue
            }
            let completion = waiting.remove(at: index).completion
            completion(.success(deliveries.map(delivery)))
        }
    }

    private func delivery(_ delivery: FeedMachine.Delivery) -> FeedDelivery {
        FeedDelivery(message: delivery.message, attempt: delivery.attempt, namespace: name.namespace)
    }

    /// Whether a message is done, and its letter on its way out.
    func isRemoving(_ position: FeedPosition) -> Bool {
        if case .remove = machine.letters[position] { return true }
        return beingRemoved.contains(position)
    }

    /// Answers those whose time is over.
    func expire(_ now: Int64) {
        guard waiting.contains(where: { $0.pull.deadline <= now }) else { return }
        let over = waiting.filter { $0.pull.deadline <= now }
        waiting.removeAll { $0.pull.deadline <= now }
        for one in over { one.completion(.success([])) }
    }

    /// Notes how a delivery went as a whole: one of which something arrived shows that the sink is there.
    func judge(_ outcomes: [SinkOutcome], _ now: Int64) {
        var failed = false
        var isUnsent = true
        var pause: Milliseconds?
        for outcome in outcomes {
            switch outcome {
            case .delivered: return breaker.succeeded(at: now)
            case .failed(_, let delay):
                (failed, isUnsent) = (true, false)
                if let delay { pause = max(pause ?? 0, delay) }
            case .refused: (failed, isUnsent) = (true, false)
            case .notSent: break
            }
        }
        if isUnsent, !outcomes.isEmpty {
            // Nothing of it has reached the other side, which says nothing about the other side.
            sinkPausesUntil = now + Self.unsentPauseMilliseconds
            return breaker.notSent(at: now)
        }
        if failed { breaker.failed(at: now, retryAfterMilliseconds: pause, using: &generator) }
    }

    /// Another works the feed from now on, or nobody; who waits for messages has been taken out.
    func end() {
        for body in settling + settled { body(false) }
        settling = []
        settled = []
    }

    /// When something is due next.
    var nextDue: Int64 {
        var due = machine.nextDue ?? .max
        for one in waiting { due = min(due, one.pull.deadline) }
        if let sink, machine.hasReady, deliveriesUnderWay < sink.concurrency { due = min(due, sinkRestsUntil) }
        if let staleSince { due = min(due, staleSince + FeedRun.staleMilliseconds) }
        return due
    }

    /// How long a sink is left alone that had no room for a delivery.
    static let unsentPauseMilliseconds: Int64 = 500

    /// About how many bytes of messages are handed out at once, unless one message has more.
    static let answerBytes = 4 << 20

    /// How long it may take until it is written down that the log was read.
    static let staleMilliseconds: Int64 = 1_000

    var report: FeedReport {
        let oldest = machine.oldest
        return FeedReport(
            feed: name, feedID: claim.feed, state: trouble == nil ? "running" : "failing", message: trouble,
            seq: oldest.map { $0.position.seq - 1 } ?? machine.readTo.seq, readTo: machine.readTo.seq,
            pending: machine.pendingCount, held: machine.heldCount, consumers: machine.holders.keys.sorted(),
            oldestID: oldest?.position.id(in: name.namespace), oldestAt: oldest?.committedAt,
            setAside: machine.blockedKeys.count)
    }
}

extension FeedMessage {
    /// When its entry was committed; nil where that is only in its text.
    var committedAt: Milliseconds? {
        if case .change(let change) = content { change.committedAt } else { nil }
    }
}
