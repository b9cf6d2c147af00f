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
        /// At most so many entries ahead it is written down that messages may be handed out. What is written down too much, a new owner
        /// has to take for handed out: so it is about what comes in a twentieth of a second.
        var mostHandedAhead: Int64 = 1_000
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
    /// What the feed began with.
    private let begun: FeedProgress
    private(set) var readTo: LogCursor
    /// The snapshot's entry, until all its messages are done.
    private var snapshotSeq: Int64?
    private var hasReadSnapshot = false
    /// Durable.
    private(set) var handedTo: Int64
    private var lastPushedSeq: Int64
    private var lastPushed: FeedPosition?
    /// How fast entries come: how many in the last tenth of a second, and where and when the present one began.
    private var pace: Int64 = 0
    private var paceSeq: Int64 = 0
    private var paceTime: Int64 = 0
    /// What a former owner may have handed out counts as held until then.
    private let adoptedThrough: Int64
    private let adoptedUntil: Int64
    /// Where it is known exactly what is out: that, and nothing else.
    var adoptedPlaces: Set<FeedPosition>?
    /// When what a former owner may have handed out goes back.
    var adoptionEnd: Int64 { adoptedUntil }
    var blockedKeys: Set<String> = []
    /// Messages that are delivered once more and not done.
    var retryCount = 0
    var letters: [FeedPosition: LetterChange] = [:]
    /// Those that are being written.
    private(set) var lettersUnderWay: [FeedPosition: LetterChange] = [:]
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
        lastPushed = position
        measure(now.monotonic)
        // What is stored to be delivered once more comes from there, and only from there.
        let isDone = begun.isDone(position) || numbers[position] != nil
        let number = append(message, isRetry: false, letter)
        if isDone { return finish(number) }
        let key = orderingKey(message)
        if blockedKeys.contains(key) { return setAside(number, key) }
        if isAdopted(position), now.monotonic < adoptedUntil {
            return adopt(number, key)
        }
        guard position.seq <= handedTo else {
            gated.insert(number)
            isDirty = true
            return
        }
        // Written down ahead, so that nothing has to wait for it.
        if position.seq + handedAhead / 2 > handedTo { isDirty = true }
        enqueue(number, key)
    }

    private func isAdopted(_ position: FeedPosition) -> Bool {
        position.seq <= adoptedThrough && (adoptedPlaces?.contains(position) ?? true)
    }

    /// What consumers have now.
    var heldPlaces: Set<FeedPosition> {
        Set(slots.values.compactMap { $0.holder == nil ? nil : $0.message.position })
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
    ///
    /// - Parameter mayBeOut: whether a former owner may have handed it out.
    mutating func retry(_ letter: FeedLetter, mayBeOut: Bool = false) {
        // What the database has is older than what is to be written of it.
        guard let message = letter.message, letters[letter.position] == nil else { return }
        if case .remove = lettersUnderWay[letter.position] { return }
        if let number = numbers[letter.position] {
            // It is here already, from the log: when it is done, so is the letter.
            slots[number]?.hasLetter = true
            return
        }
        let number = append(message, isRetry: true, letter)
        // By the order that holds now, which need not be that of the letter.
        let key = orderingKey(message)
        // Others of the key may be out, too, and not be read yet.
        if mayBeOut || (adoptedThrough > 0 && adoptedPlaces == nil) { adopt(number, key) } else { enqueue(number, key) }
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
            // While it was in the line, messages of the key may have come that a former owner has handed out, or all of it gone.
            guard isOwn || keys[key]?.held == 0, let number = keys[key]?.queue.popFirst() else {
                settle(key)
                continue
            }
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
            schedule(.deadline(number), at: deadline)
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
        // Whether what is under way arrives, nobody will be there to know.
        if isLast { letters.merge(lettersUnderWay) { new, _ in new } }
        lettersUnderWay = letters
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
        lettersUnderWay.removeAll()
        guard commit.progress.handedTo > handedTo else { return }
        handedTo = commit.progress.handedTo
        while let number = gated.first, let slot = slots[number], slot.message.position.seq <= handedTo {
            _ = gated.popFirst()
            let key = orderingKey(slot.message)
            if blockedKeys.contains(key) { setAside(number, key) } else { enqueue(number, key) }
        }
    }

    private var wantedHandedTo: Int64 {
        lastPushedSeq + handedAhead / 2 > handedTo ? max(handedTo, lastPushedSeq + handedAhead) : handedTo
    }

    /// How far ahead it is written down.
    private var handedAhead: Int64 { min(settings.mostHandedAhead, pace / 2) }

    private mutating func measure(_ now: Int64) {
        guard now - paceTime >= 100 else { return }
        // After a pause the pace is not known; then the first messages wait until they are written down.
        pace = now - paceTime < 400 ? (lastPushedSeq - paceSeq) * 100 / (now - paceTime) : 0
        paceSeq = lastPushedSeq
        paceTime = now
    }

    /// The last entry of which somebody may have a message.
    private var lastHeldSeq: Int64 {
        // What a former owner has handed out may not even have been read yet.
        if readTo.seq < adoptedThrough { return max(adoptedThrough, lastPushedSeq) }
        return slots.values.reduce(0) { $1.holder == nil ? $0 : max($0, $1.message.position.seq) }
    }

    private var progress: FeedProgress {
        let place = place
        return FeedProgress(
            seq: place.seq - 1, index: place.index, snapshotSeq: place.isSnapshot ? place.seq : nil,
            done: doneRanges(from: place), handedTo: handedTo, readTo: readTo)
    }

    /// The first place that may not be done.
    private var place: FeedPosition {
        if let first = firstInOrder.flatMap({ slots[$0] }) { return first.message.position }
        // Nothing waits. What the feed began with holds until more than that was read.
        var place = begun.first
        if let lastDone { place = max(place, lastDone.next) }
        if snapshotSeq == nil || hasReadSnapshot { place = max(place, FeedPosition(seq: readTo.seq + 1, index: 0)) }
        return place
    }

    private func doneRanges(from place: FeedPosition) -> PlaceRanges {
        var ranges: [ClosedRange<FeedPosition>] = []
        var number = firstInOrder
        while let current = number, let slot = slots[current] {
            if let range = slot.doneBehind { ranges.append(range) }
            number = slot.next
        }
        // And what was done before the feed began here, and was not read again yet.
        let unread = max(place, lastPushed?.next ?? place)
        for range in begun.done.ranges where range.upperBound >= unread && range.upperBound.seq > readTo.seq {
            ranges.append(max(range.lowerBound, unread)...range.upperBound)
        }
        return PlaceRanges(ranges)
    }

    /// The last message that was done while none before it waited.
    var lastDone: FeedPosition?

    mutating func count(bytes: Int) { pendingBytes += bytes }
}
