import LogStore
import Runtime

/// Decides who gets which message of a feed when, and what is done: order by key, holding, deadlines, attempts, backoff, dead
/// letters, and the place that is kept. Without I/O and without a clock; belongs to one thread.
///
/// Messages come from the reader in the order of their places and leave when they are done. All times are monotonic milliseconds, but for
/// those of failures, which people read.
final class FeedMachine {
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
    /// All messages that are not done.
    var slots: [FeedPosition: Slot] = [:]
    var keys: [FeedKey: KeyState] = [:]
    var ready = KeyLine()
    var timers = TimerHeap<Timer>()
    var holders: [String: Holder] = [:]
    /// The messages that consumers hold, without adopted ones.
    var heldCount = 0
    /// Whether the consumers of messages that are not held any more are recorded, for pulls that wait until their consumer holds fewer.
    var recordsReleases = false
    var releases: [String] = []
    /// Messages that wait until it is written down that they may be handed out.
    var gated = SlotQueue()
    private var nextNumber = 0
    var nextDelivery: UInt64 = 0
    /// The first and the last slot of those that come in order.
    private(set) var firstInOrder: Slot?
    private var lastInOrder: Slot?
    /// What the feed began with.
    let begun: FeedProgress
    private(set) var readTo: LogCursor
    /// The snapshot's entry, until all its messages are done.
    let snapshotSeq: Int64?
    private(set) var hasReadSnapshot = false
    /// Durable.
    var handedTo: Int64
    /// What is done among what is not.
    var gaps = Gaps()
    private(set) var lastPushedSeq: Int64
    private(set) var lastPushed: FeedPosition?
    var pace = FeedPace()
    /// What a former owner may have handed out counts as held until then.
    let adoptedThrough: Int64
    let adoptedUntil: Int64
    /// Where it is known exactly what is out: that, and nothing else.
    var adoptedPlaces: Set<FeedPosition>?
    var blockedKeys: Set<FeedKey> = []
    var commitCount: Int64 = 0
    /// Messages that are delivered once more and not done.
    private var retries = IndexedHeap<FeedPosition, FeedPosition>()
    var retryCount: Int { retries.count }
    var letters: [FeedPosition: LetterChange] = [:]
    /// Those that are being written.
    var lettersUnderWay: [FeedPosition: LetterChange] = [:]
    var counters = Counters()
    private(set) var pendingBytes = 0
    /// Whether there is something to write down at once.
    var isDirty = false
    /// Whether there is something to write down that has time: the log was read, or messages were handed out.
    var isStale = false
    /// The last message that was done while none before it waited.
    private(set) var lastDone: FeedPosition?

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

    deinit {
        // Slots, their keys and their holders know one another.
        for key in keys.values { key.queue.removeAll() }
        for holder in holders.values { holder.removeAll() }
    }

    // MARK: Figures

    var pendingCount: Int { slots.count }
    /// How many more messages the reader may bring, and about how many bytes of them.
    var room: Int { settings.windowMessages - slots.count }
    var byteRoom: Int { settings.windowBytes - pendingBytes }
    /// Whether somebody can be given something.
    var hasReady: Bool { !ready.isEmpty }
    /// The first message that is not done; where all of the log are, the first of those that are delivered once more.
    var oldest: FeedMessage? {
        firstInOrder?.message
            ?? retries.first.flatMap { slots[$0.key] }?.message
    }

    // MARK: From the reader

    /// A message that an entry has brought, or the snapshot.
    ///
    /// - Parameter letter: what is known of earlier attempts.
    func push(_ message: FeedMessage, failed letter: FeedLetter? = nil, now: Moment) {
        let position = message.position
        lastPushedSeq = max(lastPushedSeq, position.seq)
        lastPushed = position
        pace.measure(lastPushedSeq, at: now.monotonic)
        // What is stored to be delivered once more comes from there, and only from there.
        guard !begun.isDone(position), slots[position] == nil else {
            noteDone(position)
            if letter != nil { removeLetter(position) }
            return
        }
        let slot = append(message, isRetry: false, letter)
        if !blockedKeys.isEmpty, blockedKeys.contains(orderingKey(message)) { return setAside(slot) }
        if isAdopted(position), now.monotonic < adoptedUntil { return adopt(slot) }
        guard position.seq <= handedTo else {
            gated.insert(slot)
            isDirty = true
            return
        }
        // Written down ahead, so that nothing has to wait for it.
        if position.seq + handedAhead / 2 > handedTo { isDirty = true }
        enqueue(slot)
    }

    private func isAdopted(_ position: FeedPosition) -> Bool {
        position.seq <= adoptedThrough && (adoptedPlaces?.contains(position) ?? true)
    }

    /// What consumers have now.
    var heldPlaces: Set<FeedPosition> { Set(slots.values.lazy.filter(\.isHeld).map(\.position)) }

    /// All messages of entries up to there were pushed.
    func read(to cursor: LogCursor) {
        guard cursor.seq >= readTo.seq else { return }
        readTo = cursor
        lastPushedSeq = max(lastPushedSeq, cursor.seq)
        isStale = true
    }

    /// All messages of the snapshot's tree were pushed: what follows are the entries behind it.
    func readSnapshot(at cursor: LogCursor) {
        hasReadSnapshot = true
        read(to: cursor)
        isDirty = true
    }

    /// A stored message that is to be delivered once more.
    ///
    /// - Parameter mayBeOut: whether a former owner may have handed it out.
    func retry(_ letter: FeedLetter, mayBeOut: Bool = false) {
        // What the database has is older than what is to be written of it.
        guard let message = letter.message, letters[letter.position] == nil else { return }
        if case .remove = lettersUnderWay[letter.position] { return }
        if let slot = slots[letter.position] {
            // It is here already, from the log: when it is done, so is the letter.
            slot.hasLetter = true
            return
        }
        // By the order that holds now, which need not be that of the letter.
        let slot = append(message, isRetry: true, letter)
        // Others of the key may be out, too, and not be read yet.
        if mayBeOut || (adoptedThrough > 0 && adoptedPlaces == nil) { adopt(slot) } else { enqueue(slot) }
    }

    // MARK: In and out

    private func append(_ message: FeedMessage, isRetry: Bool, _ letter: FeedLetter?) -> Slot {
        let slot = Slot(message, number: nextNumber, isRetry: isRetry)
        nextNumber += 1
        if let letter {
            slot.attempts = isRetry ? 0 : letter.attempts
            slot.failures = letter.failures
            slot.hasLetter = true
        }
        if isRetry {
            retries.set(message.position, to: message.position)
        } else {
            slot.previous = lastInOrder
            if let last = lastInOrder { last.next = slot } else { firstInOrder = slot }
            lastInOrder = slot
        }
        pendingBytes += slot.bytes
        slots[message.position] = slot
        return slot
    }

    /// The message is done: it leaves, and its place joins what is done around it.
    func finish(_ slot: Slot) {
        let position = slot.position
        slots[position] = nil
        pendingBytes -= slot.bytes
        isDirty = true
        if slot.hasLetter { removeLetter(position) }
        guard !slot.isRetry else {
            retries.remove(position)
            return
        }
        let lastBehind = slot.doneBehind?.upperBound ?? position
        gaps.set(nil, behind: slot)
        if let previous = slot.previous {
            gaps.set((previous.doneBehind?.lowerBound ?? position)...lastBehind, behind: previous)
            previous.next = slot.next
        } else {
            firstInOrder = slot.next
            lastDone = lastBehind
        }
        if let next = slot.next { next.previous = slot.previous } else { lastInOrder = slot.previous }
    }

    /// A message that was done before comes last of all.
    private func noteDone(_ position: FeedPosition) {
        isDirty = true
        if let last = lastInOrder {
            gaps.set((last.doneBehind?.lowerBound ?? position)...position, behind: last)
        } else {
            lastDone = position
        }
    }

    private func removeLetter(_ position: FeedPosition) {
        if case .put(let letter) = letters[position], letter.state == .dead || letter.state == .blocked { return }
        letters[position] = .remove
    }
}
