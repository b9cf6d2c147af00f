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
    private let uid: String
    private let createdAt: Int64
    let claim: FeedClaim
    let sink: (any Sink)?
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
    /// Whether it is worth while to deliver to the sink at all.
    var breaker: CircuitBreaker
    private var generator = SystemRandomNumberGenerator()
    var trouble: String?
    /// Whether the desk looks at it in this turn, or has to write something of it down.
    var isTouched = false
    var isUnwritten = false
    /// When the desk looks at it next without being told.
    var scheduledAt: Int64 = .max

    init(_ start: FeedRunStart) {
        name = start.name
        uid = start.uid
        createdAt = start.createdAt
        claim = start.claim
        sink = start.sink
        window = start.window
        retried = start.retried
        machine = FeedMachine(
            start.settings, from: start.progress, adoptedThrough: start.adoptedThrough,
            adoptedUntil: start.adoptedUntil)
        machine.blockedKeys = start.blockedKeys
        for letter in start.retried.letters { machine.retry(letter, mayBeOut: start.adoptedThrough > 0) }
        var settings = CircuitBreaker.Settings()
        settings.probeMilliseconds = (start.sink?.timeoutMilliseconds ?? 0) + 5_000
        breaker = CircuitBreaker(settings, at: Clock.monotonicMilliseconds)
    }

    /// Whether a caller may consume this feed.
    func isOpen(to access: FeedAccess) -> Bool { access.admits(uid: uid, createdAt: createdAt) }

    /// Takes messages in that the reader has found. True where the reader waits and can go on.
    func take(_ finding: LaneFinding, _ now: FeedMachine.Moment) {
        for message in finding.messages {
            machine.push(message, failed: finding.letters[message.position], now: now)
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
        var pause: Milliseconds?
        for outcome in outcomes {
            switch outcome {
            case .delivered: return breaker.succeeded(at: now)
            case .failed(_, let delay):
                failed = true
                if let delay { pause = max(pause ?? 0, delay) }
            case .refused: failed = true
            case .notSent: break
            }
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
