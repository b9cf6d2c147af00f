import LogStore

/// Decides who gets which message of a feed when, and what is done: order by key, holding, deadlines, attempts, backoff, dead
/// letters, and the place that is kept. A value without I/O and without a clock.
///
/// Messages come from the reader in the order of their places and leave when they are done. All times are monotonic milliseconds, but for
/// those of failures, which people read.
struct FeedMachine: Sendable {
    struct Settings: Sendable {
        /// For the ids in stored messages.
        var namespace = ""
        var ordersByKey = true
        var maxAttempts = 10
        var firstBackoffMilliseconds: Int64 = 1_000
        var maxBackoffMilliseconds: Int64 = 60_000
        var ackDeadlineMilliseconds: Int64 = 30_000
        /// Whether a dead letter stops its key.
        var stopsKeys = false
        /// Messages that are not done, at most; and about how many bytes they may cost. The reader pauses beyond.
        var windowMessages = 10_000
        var windowBytes = 64 << 20
        /// How many entries ahead it is written down that messages may be handed out.
        var handingStep: Int64 = 1_000
        /// Failures of a message that are remembered.
        var keptFailures = 20

        init() {}
    }

    /// A message that is handed out.
    struct Delivery: Sendable {
        let message: FeedMessage
        let attempt: Int
    }

    enum Result: String, Sendable {
        case done, unknown, expired
    }

    /// The present time, by both clocks.
    struct Moment: Sendable {
        let monotonic: Int64
        let unix: Int64
    }

    struct Counters: Sendable, Equatable {
        var delivered: Int64 = 0
        var acknowledged: Int64 = 0
        var redelivered: Int64 = 0
    }

    let settings: Settings
    var slots: [Int: Slot] = [:]
    var numbers: [FeedPosition: Int] = [:]
    var keys: [String: KeyState] = [:]
    var ready = KeyLine()
    var timers = TimerHeap<Timer>()
    var holders: [String: Set<Int>] = [:]
    /// Messages that wait until it is written down that they may be handed out.
    var gated = NumberQueue()
    var nextNumber = 0
    var nextDelivery: UInt64 = 0
    /// The first and the last slot of those that come in order.
    var firstInOrder: Int?
    var lastInOrder: Int?
    /// Of the progress that the feed began with: what is done of what is still to come.
    private let begun: FeedProgress
    private(set) var readTo: LogCursor
    /// The snapshot's entry, until all its messages are done.
    private var snapshotSeq: Int64?
    private var hasReadSnapshot = false
    /// Durable.
    private(set) var handedTo: Int64
    private var lastPushedSeq: Int64
    /// What a former owner may have handed out counts as held until then.
    private let adoptedThrough: Int64
    private let adoptedUntil: Int64
    /// When what a former owner may have handed out goes back.
    var adoptionEnd: Int64 { adoptedUntil }
    var blockedKeys: Set<String> = []
    var letters: [FeedPosition: LetterChange] = [:]
    var counters = Counters()
    private(set) var pendingBytes = 0
    /// Whether there is something to write down at once.
    var isDirty = false
    /// Whether there is something to write down that has time: the log was read, and nothing else.
    private(set) var isStale = false

    /// - Parameters:
    ///   - progress: where the feed goes on.
    ///   - adoptedThrough: a former owner may have handed out messages of entries up to this one.
    ///   - adoptedUntil: until when they count as held.
    init(
        _ settings: Settings, from progress: FeedProgress, adoptedThrough: Int64 = 0, adoptedUntil: Int64 = 0
    ) {
        self.settings = settings
        begun = progress
        readTo = LogCursor(seq: progress.seq)
        snapshotSeq = progress.snapshotSeq
        handedTo = progress.handedTo
        lastPushedSeq = progress.seq
        self.adoptedThrough = adoptedThrough
        self.adoptedUntil = adoptedUntil
    }

    // MARK: Figures

    var pendingCount: Int { slots.count }
    var heldCount: Int { holders.reduce(0) { $0 + $1.value.count } }
    /// How many more messages the reader may bring.
    var room: Int { pendingBytes >= settings.windowBytes ? 0 : max(0, settings.windowMessages - slots.count) }
    /// Whether somebody can be given something.
    var hasReady: Bool { !ready.isEmpty }

    // MARK: From the reader

    /// A message that an entry has brought, or the snapshot.
    ///
    /// - Parameter letter: what is known of earlier attempts.
    mutating func push(_ message: FeedMessage, failed letter: FeedLetter? = nil, now: Moment) {
        let position = message.position
        lastPushedSeq = max(lastPushedSeq, position.seq)
        let isDone = begun.isDone(position)
        let number = append(message, isRetry: false, letter)
        if isDone { return finish(number) }
        let key = orderingKey(message)
        if blockedKeys.contains(key) { return setAside(number, key) }
        if position.seq <= adoptedThrough, now.monotonic < adoptedUntil {
            return adopt(number, key)
        }
        guard position.seq <= handedTo else {
            gated.insert(number)
            isDirty = true
            return
        }
        // Written down ahead, so that nothing has to wait for it.
        if position.seq + settings.handingStep / 2 > handedTo { isDirty = true }
        enqueue(number, key)
    }

    /// All messages of entries up to there were pushed.
    mutating func read(to cursor: LogCursor) {
        guard cursor.seq >= readTo.seq else { return }
        readTo = cursor
        lastPushedSeq = max(lastPushedSeq, cursor.seq)
        isStale = true
    }

    /// All messages of the snapshot's tree were pushed: what follows are the entries behind it.
    mutating func readSnapshot(at cursor: LogCursor) {
        hasReadSnapshot = true
        read(to: cursor)
        isDirty = true
    }

    /// A stored message that is to be delivered once more.
    mutating func retry(_ letter: FeedLetter) {
        guard let message = letter.message, numbers[letter.position] == nil else { return }
        let number = append(message, isRetry: true, letter)
        slots[number]?.hasLetter = true
        enqueue(number, letter.key)
    }

    // MARK: To consumers

    /// Hands out up to so many messages, the oldest first. Those of one key go to one consumer at a time, in order.
    mutating func pull(_ most: Int, by consumer: String, now: Moment) -> [Delivery] {
        var deliveries: [Delivery] = []
        // Keys of which this pull has some already, and could have more.
        var own = KeyLine()
        while deliveries.count < most {
            let isOwn = own.first.map { mine in ready.first.map { mine < $0 } ?? true } ?? false
            guard let key = isOwn ? own.popFirst() : ready.popFirst() else { break }
            if !isOwn { keys[key]?.isInLine = false }
            guard let number = keys[key]?.queue.popFirst() else { continue }
            if let delivery = hold(number, key, consumer, now) { deliveries.append(delivery) }
            if let next = keys[key]?.queue.first { own.add(key, next) }
        }
        // They come back into the line when nobody holds any of them.
        return deliveries
    }

    /// A consumer has done with a message.
    ///
    /// - Parameter consumer: must be who holds it; nil for whoever does.
    mutating func acknowledge(_ position: FeedPosition, by consumer: String?) -> Result {
        switch find(position, heldBy: consumer) {
        case .held(let number):
            unhold(number)
            counters.acknowledged += 1
            let key = slots[number].map { orderingKey($0.message) }
            finish(number)
            if let key { settle(key) }
            return .done
        case .notHeld: return .expired
        case .missing: return .unknown
        }
    }

    /// A consumer could not do with a message: it comes again later, or is a dead letter.
    ///
    /// - Parameters:
    ///   - delay: how long to wait; nil for the feed's backoff.
    ///   - isFinal: whether trying again is no use.
    mutating func reject(
        _ position: FeedPosition, by consumer: String?, after delay: Int64?, reason: String, isFinal: Bool = false,
        now: Moment
    ) -> Result {
        switch find(position, heldBy: consumer) {
        case .held(let number):
            fail(number, delay, reason, isFinal, now)
            return .done
        case .notHeld: return .expired
        case .missing: return .unknown
        }
    }

    /// A consumer needs so long from now on.
    mutating func extend(_ position: FeedPosition, by consumer: String?, to milliseconds: Int64, now: Moment) -> Result
    {
        switch find(position, heldBy: consumer) {
        case .held(let number):
            let deadline = now.monotonic + milliseconds
            slots[number]?.deadline = deadline
            timers.add(.deadline(number), at: deadline)
            return .done
        case .notHeld: return .expired
        case .missing: return .unknown
        }
    }

    /// A consumer gives back all that it holds; none of it counts as an attempt.
    ///
    /// - Parameter position: what it was given up to this message, in the order of delivery, is done.
    mutating func giveBack(_ consumer: String, acknowledgingThrough position: FeedPosition? = nil) {
        var last: UInt64 = 0
        if let position, let number = numbers[position], let slot = slots[number], slot.lastHolder == consumer,
            slot.holder == nil || slot.holder == consumer
        {
            last = slot.delivery
            acknowledge(through: last, notHeldBy: consumer)
        }
        var touched: Set<String> = []
        for number in holders[consumer] ?? [] {
            guard let slot = slots[number] else { continue }
            let key = orderingKey(slot.message)
            touched.insert(key)
            unhold(number)
            if slot.delivery <= last {
                counters.acknowledged += 1
                finish(number)
            } else {
                slots[number]?.attempts -= 1
                keys[key]?.queue.insert(number)
            }
        }
        for key in touched { settle(key) }
    }

    /// What a consumer had and gave back unsettled, up to a delivery, is done after all, where nobody has it now.
    private mutating func acknowledge(through delivery: UInt64, notHeldBy consumer: String) {
        var touched: Set<String> = []
        for (number, slot) in slots
        where slot.holder == nil && slot.lastHolder == consumer && slot.delivery <= delivery {
            touched.insert(orderingKey(slot.message))
            counters.acknowledged += 1
            finish(number)
        }
        for key in touched {
            keys[key]?.queue.keep { slots[$0] != nil }
            settle(key)
        }
    }

    /// Messages did not reach the consumer that they were for: they go back and don't count as attempts.
    mutating func giveBack(_ positions: [FeedPosition], of consumer: String) {
        for position in positions {
            guard case .held(let number) = find(position, heldBy: consumer), let slot = slots[number], !slot.isAdopted
            else { continue }
            let key = orderingKey(slot.message)
            unhold(number)
            slots[number]?.attempts -= 1
            keys[key]?.queue.insert(number)
            settle(key)
        }
    }

    // MARK: Time

    /// When something is due next.
    var nextDue: Int64? { timers.earliest }

    /// Takes back what was held for too long, and makes ready what has waited long enough.
    mutating func advance(to now: Moment) {
        while let (time, timer) = timers.take(by: now.monotonic) {
            switch timer {
            case .deadline(let number):
                guard let slot = slots[number], slot.holder != nil, slot.deadline == time else { continue }
                if slot.isAdopted {
                    let key = orderingKey(slot.message)
                    unhold(number)
                    keys[key]?.queue.insert(number)
                    settle(key)
                } else {
                    let who = slot.holder.map { $0.isEmpty ? "the consumer" : "consumer \($0)" } ?? ""
                    fail(number, 0, "not acknowledged in time by \(who)", false, now)
                }
            case .wake(let key):
                guard let until = keys[key]?.waitsUntil, until <= now.monotonic else { continue }
                keys[key]?.waitsUntil = nil
                settle(key)
            }
        }
    }

    // MARK: What is kept

    /// What is to be written down now. The machine goes on meanwhile.
    ///
    /// - Parameter isLast: nothing will be handed out behind it.
    mutating func takeProgress(isLast: Bool = false) -> FeedCommit {
        isDirty = false
        isStale = false
        defer {
            letters.removeAll()
            counters = Counters()
        }
        var progress = self.progress
        progress.handedTo = isLast ? max(progress.seq, lastHeldSeq) : wantedHandedTo
        return FeedCommit(
            namespace: settings.namespace, progress: progress, letters: letters, counters: counters)
    }

    /// So much is durable.
    mutating func committed(_ commit: FeedCommit) {
        guard commit.progress.handedTo > handedTo else { return }
        handedTo = commit.progress.handedTo
        while let number = gated.first, let slot = slots[number], slot.message.position.seq <= handedTo {
            _ = gated.popFirst()
            enqueue(number, orderingKey(slot.message))
        }
    }

    private var wantedHandedTo: Int64 {
        max(handedTo, lastPushedSeq + settings.handingStep / 2 > handedTo ? lastPushedSeq + settings.handingStep : 0)
    }

    private var lastHeldSeq: Int64 {
        holders.values.joined().compactMap { slots[$0]?.message.position.seq }.max() ?? 0
    }

    private var progress: FeedProgress {
        if snapshotSeq != nil, hasReadSnapshot, firstInOrder.flatMap({ slots[$0] })?.message.position.isSnapshot != true
        {
            // The snapshot's messages are done; those of entries behind it may not be.
            return progress(snapshot: nil)
        }
        return progress(snapshot: snapshotSeq)
    }

    private func progress(snapshot: Int64?) -> FeedProgress {
        guard let first = firstInOrder, let slot = slots[first] else {
            if let snapshot {
                // Not all of it was read. What was is done, and what comes next follows it.
                return FeedProgress(
                    seq: snapshot - 1, index: snapshotIndexBehind, snapshotSeq: snapshot, handedTo: handedTo,
                    readTo: readTo)
            }
            return FeedProgress(seq: readTo.seq, handedTo: handedTo, readTo: readTo)
        }
        let position = slot.message.position
        return FeedProgress(
            seq: position.seq - 1, index: position.index, snapshotSeq: snapshot, done: doneRanges, handedTo: handedTo,
            readTo: readTo)
    }

    /// The index behind the last snapshot message that is done, where none waits.
    private var snapshotIndexBehind: Int64 {
        let pushed = lastDone.flatMap { $0.isSnapshot ? $0.index + 1 : nil }
        return max(pushed ?? 0, begun.snapshotSeq != nil ? begun.index : 0)
    }

    private var doneRanges: PlaceRanges {
        var ranges: [ClosedRange<FeedPosition>] = []
        var number = firstInOrder
        while let current = number, let slot = slots[current] {
            if let range = slot.doneBehind { ranges.append(range) }
            number = slot.next
        }
        return PlaceRanges(ranges)
    }

    /// The last message that was done while none before it waited.
    var lastDone: FeedPosition?

    mutating func count(bytes: Int) { pendingBytes += bytes }
}
