import LogStore
import Runtime

/// Decides when each message is delivered, to which consumer, and when it is done: order by key, holding, deadlines, attempts,
/// backoff, dead letters, and the recorded progress. Without I/O and without a clock; belongs to one thread.
///
/// Messages arrive from the reader in the order of their positions and leave when they are done. All times are monotonic
/// milliseconds, except the times of failures, which are for operators.
///
/// A message that is not done has a `Slot`. The slot is in one of these states:
///
///     push ──┬──► gated ─── `handedTo` is durable ───┬──► queued ─── pull ───► held ─── acknowledge ───► done
///            ├──► parked ── earlier retries are read ┤      ▲                   │ │
///            └──► held, adopted                      │      └ failed, put back ──┘ └─── last attempt ───► dead
///     retry ─────────────────────────────────────────┘
///
/// - Gated: the feed's row in the database must first state that messages of this entry may be delivered (`handedTo`).
/// - Parked: the database may have earlier messages of the key to retry, which the machine has not read yet. When they have been
///   read, the message is queued or gated.
/// - Queued: the message waits in the queue of its key. The key is ready (`ready`) while no message of the key is held, the key
///   does not wait after a failed attempt, and the dead letters of the key are durable.
/// - Held (out): a consumer has the message until `deadline`. If the deadline passes, the attempt has failed.
///   After a takeover the machine adopts the messages that a previous owner may have delivered: it treats them as held until
///   `adoptedUntil`, and then queues them. Retries can be adopted, too.
/// - Done: the slot is removed, and `DonePositions` closes the position.
/// - Dead: the database stores the message as a dead letter, and the slot is removed. If dead letters stop their keys, the machine
///   sets the later messages of the key aside: the database stores them as blocked. While the database has as many stored messages
///   as it may have, a message does not become a dead letter but is retried after the longest pause, and messages that should be
///   set aside wait in memory (`unstored`).
///
/// An administrator can have dead letters delivered again. The database then gives them to the machine as retries (`retry`).
final class FeedMachine {
    struct Settings: Sendable {
        /// The namespace's name, for the ids in stored messages.
        var namespace = ""
        var ordersByKey = true
        var maxAttempts = 10
        var firstBackoffMilliseconds: Int64 = 1_000
        var maxBackoffMilliseconds: Int64 = 60_000
        var ackDeadlineMilliseconds: Int64 = 30_000
        /// Whether a dead letter stops its key.
        var stopsKeys = false
        /// The maximum number of undone messages, and their approximate maximum size in memory in bytes. At the
        /// maximum the reader pauses.
        var windowMessages = 10_000
        var windowBytes = 64 << 20
        /// The maximum number of entries by which `handedTo` is recorded ahead. After a takeover the new owner must treat all
        /// messages up to `handedTo` as possibly delivered, so the lead covers only about a twentieth of a second.
        var mostHandedAhead: Int64 = 1_000

        /// The maximum number of dead letters and messages set aside, and their approximate maximum size in bytes.
        var mostStored: Int64 = 100_000
        var mostStoredBytes: Int64 = 1 << 30

        init() {}
    }

    /// A delivery of a message to a consumer.
    struct Delivery: Sendable {
        let message: FeedMessage
        let attempt: Int
        /// The number of this delivery among all deliveries of the feed.
        let number: UInt64
    }

    enum Result: String, Sendable {
        case done, unknown, expired
    }

    /// The current time on both clocks, in milliseconds.
    struct Moment: Sendable {
        let monotonic: Int64
        let unix: Int64

        static var current: Moment { Moment(monotonic: Clock.monotonicMilliseconds, unix: Clock.unixMilliseconds) }
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
    /// The number of messages that consumers hold, without adopted messages.
    var heldCount = 0
    /// Whether `releases` records the consumers of messages that cease to be held, for pulls that wait until their consumer holds fewer.
    var recordsReleases = false
    var releases: [String] = []
    /// The latest opening of each consumer, as long as it is open or the next opening may acknowledge its messages.
    var openings: [String: HandOuts] = [:]
    /// The messages that wait until `handedTo` covers them.
    var gated = SlotQueue()
    private var nextNumber = 0
    var nextDelivery: UInt64 = 0
    /// The done positions of the log order.
    var positions: DonePositions
    /// The invariant that was violated. From then on the machine delivers and records nothing.
    /// The run ends, and a new machine starts from the last recorded progress.
    private(set) var fault: FeedInvariantError?
    /// The durable `handedTo`: the last entry whose messages may be delivered.
    var handedTo: Int64
    private(set) var lastPushedSeq: Int64
    var pace = FeedPace()
    /// The last entry of which a previous owner may have delivered messages, and the time until which such messages count as held.
    let adoptedThrough: Int64
    let adoptedUntil: Int64
    /// The positions of the delivered messages, if exactly known: only these count as delivered. A position leaves the set
    /// when its message arrives.
    var adoptedPositions: Set<FeedPosition>?
    /// The keys with delivered messages, if the delivered messages are exactly known.
    var adoptedKeys: Set<FeedKey> = []
    /// The messages whose later messages may have been delivered; see the type.
    var overtaken = OvertakingNotes()
    /// The known numbers of deliveries by previous runs. `UInt64.max` marks a message that has arrived at the sink.
    var formerDeliveries: [FeedPosition: UInt64] = [:]
    /// The delivery number before the first delivery of this run.
    let firstDelivery: UInt64
    /// The number of adopted messages.
    var adoptedCount = 0
    var blockedKeys: Set<FeedKey> = []
    /// The retries that have not been read from the database yet, and the new messages that wait for them.
    var unread = UnreadRetries()
    var parked = SlotQueue()
    /// The keys of the dead letters to be written, and of those being written.
    var buried: [KeyState] = []
    var beingBuried: [KeyState] = []
    /// The first dead letter of each key since the first page of retries was read, if dead letters stop keys.
    var deaths: [FeedKey: FeedPosition] = [:]
    /// The commit after whose durability the retries are read again from the first page.
    var rereadsAfterCommit: Int64?
    var rereadsRetries = false
    /// The amount of dead letters and set-aside messages in the database, and the messages that wait for room to be set aside.
    var stored = Stored()
    var unstored = SlotQueue()
    /// Whether a message could not be stored.
    var isShortOfRoom = false
    var commitCount: Int64 = 0
    /// The undone messages that are retried from the database.
    private var retries = IndexedHeap<FeedPosition, FeedPosition>()
    var retryCount: Int { retries.count }
    /// The retries that do not wait for unread retries. When few are left, the next page is read.
    var readyRetryCount: Int { retries.count - parkedRetryCount }
    var parkedRetryCount = 0
    var failedMessages: [FeedPosition: FailedMessageChange] = [:]
    /// The changes of stored messages that are being written.
    var failedMessagesInFlight: [FeedPosition: FailedMessageChange] = [:]
    var counters = Counters()
    private(set) var pendingBytes = 0
    /// Whether there is progress to record at once.
    var isDirty = false
    /// Whether there is progress that may be recorded later: the log was read, or messages were delivered.
    var isStale = false

    /// - Parameters:
    ///   - progress: The recorded progress from which the feed resumes.
    ///   - adoptedThrough: The last entry of which a previous owner may have delivered messages.
    ///   - adoptedUntil: The time until which these messages count as held.
    ///   - firstDelivery: The number before the first delivery. It differs for each machine of a feed.
    init(
        _ settings: Settings, from progress: FeedProgress, adoptedThrough: Int64 = 0, adoptedUntil: Int64 = 0,
        firstDelivery: UInt64 = 0
    ) {
        self.settings = settings
        positions = DonePositions(from: progress)
        handedTo = progress.handedTo
        lastPushedSeq = progress.seq
        self.adoptedThrough = adoptedThrough
        self.adoptedUntil = adoptedUntil
        self.firstDelivery = firstDelivery
        nextDelivery = firstDelivery
    }

    deinit {
        // Break the reference cycles between slots, keys, holders and openings.
        for key in keys.values { key.queue.removeAll() }
        for holder in holders.values { holder.removeAll() }
        for opening in openings.values { opening.removeAll() }
        positions.removeAll()
    }

    // MARK: Figures

    var pendingCount: Int { slots.count }
    /// The number of messages that the reader may still bring, and their approximate bytes.
    var room: Int { settings.windowMessages - slots.count }
    var byteRoom: Int { settings.windowBytes - pendingBytes }
    /// Whether a pull would receive a message.
    var hasReady: Bool { fault == nil && !ready.isEmpty }
    var readTo: LogPosition { positions.readTo }
    /// The first message that is not done, or the first retry if all messages of the log are done.
    var oldest: FeedMessage? {
        positions.first.flatMap { slots[$0]?.message }
            ?? retries.first.flatMap { slots[$0.key] }?.message
    }

    // MARK: Reading

    /// Adds a message of an entry or of the snapshot. A message that does not come after the previous one is a fault.
    ///
    /// - Parameter failedMessage: The stored state of earlier attempts, if any.
    func push(_ message: FeedMessage, failed failedMessage: FailedMessage? = nil, now: Moment) {
        guard fault == nil else { return }
        let mayBeOut = mayBeOut(message.position)
        adoptedPositions?.remove(message.position)
        do throws(FeedInvariantError) {
            guard let slot = try open(message, failedMessage) else { return }
            admit(slot, mayBeOut: mayBeOut, now)
        } catch {
            stop(error)
        }
    }

    /// Returns nil if the message is done, or is delivered from the database.
    private func open(_ message: FeedMessage, _ failedMessage: FailedMessage?) throws(FeedInvariantError) -> Slot? {
        let slot: Slot?
        if let stored = slots[message.position] {
            // A stored retry is delivered from the database only.
            try positions.pass(stored)
            slot = nil
        } else {
            let made = Slot(message, number: nextNumber, isRetry: false, isOrderedByPosition: settings.stopsKeys)
            slot = try positions.open(made) ? made : nil
        }
        lastPushedSeq = max(lastPushedSeq, message.position.seq)
        if let slot {
            keep(slot, failedMessage)
        } else {
            isDirty = true
            if failedMessage != nil { removeFailedMessage(message.position) }
        }
        return slot
    }

    private func admit(_ slot: Slot, mayBeOut: Bool, _ now: Moment) {
        let position = slot.position
        pace.measure(lastPushedSeq, at: now.monotonic)
        slot.mayBeOut = mayBeOut && now.monotonic < adoptedUntil
        // A previous run settled this message without recording that. Later messages of its key may still be held.
        if !slot.mayBeOut, position.seq <= adoptedThrough, now.monotonic < adoptedUntil, hasFormerDeliveries {
            noteOvertaken(slot)
        }
        if !blockedKeys.isEmpty, blockedKeys.contains(orderingKey(slot.message)) { return setAside(slot) }
        if waitsForRetries(slot) { park(slot) }
        if slot.mayBeOut { return adopt(slot) }
        if slot.isParked { return }
        guard position.seq <= handedTo else {
            gated.insert(slot)
            isDirty = true
            return
        }
        // `handedTo` is recorded ahead, so that no message has to wait for it.
        if position.seq + handedAhead / 2 > handedTo { isDirty = true }
        enqueue(slot)
    }

    /// Returns whether a previous owner or an earlier run may have delivered a message that arrives now.
    private func mayBeOut(_ position: FeedPosition) -> Bool {
        position.seq <= adoptedThrough && (adoptedPositions?.contains(position) ?? true)
    }

    /// Notes that all messages of entries up to the cursor were pushed.
    func read(to cursor: LogPosition) {
        guard positions.read(to: cursor) else { return }
        lastPushedSeq = max(lastPushedSeq, cursor.seq)
        isStale = true
    }

    /// Notes that all messages of the snapshot's tree were pushed. The messages of later entries follow.
    func readSnapshot(at cursor: LogPosition) {
        positions.readSnapshot()
        read(to: cursor)
        isDirty = true
    }

    /// Adds a stored message to deliver again.
    ///
    /// - Parameter mayBeOut: Whether a previous owner may have delivered the message.
    func retry(_ failedMessage: FailedMessage, mayBeOut: Bool = false) {
        // The database has an older state than the changes that are yet to be written.
        guard let message = failedMessage.message, failedMessages[failedMessage.position] == nil else { return }
        if case .remove = failedMessagesInFlight[failedMessage.position] { return }
        if let slot = slots[failedMessage.position] {
            // The message has already arrived from the log. Its stored copy is removed when the message is done.
            slot.hasFailedMessage = true
            return
        }
        // The slot uses the current ordering of the feed, which may differ from the ordering when the message was stored.
        let slot = Slot(message, number: nextNumber, isRetry: true, isOrderedByPosition: settings.stopsKeys)
        keep(slot, failedMessage)
        // Other messages of the key may also have been delivered and not been read yet.
        let isKnownOut = adoptedPositions?.contains(slot.position) ?? true
        let isOut =
            adoptedPositions.map { _ in isKnownOut || adoptedKeys.contains(orderingKey(message)) }
            ?? (mayBeOut || adoptedThrough > 0)
        adoptedPositions?.remove(slot.position)
        guard isOut else { return enqueue(slot) }
        if !isKnownOut { noteOvertaken(slot) }
        adopt(slot)
    }

    // MARK: Slots

    private func keep(_ slot: Slot, _ failedMessage: FailedMessage?) {
        nextNumber += 1
        if let failedMessage {
            slot.attempts = slot.isRetry ? 0 : failedMessage.attempts
            slot.failures = failedMessage.failures
            slot.hasFailedMessage = true
        }
        if !formerDeliveries.isEmpty { slot.formerDelivery = formerDeliveries.removeValue(forKey: slot.position) ?? 0 }
        if slot.isRetry { retries.set(slot.position, to: slot.position) }
        pendingBytes += slot.bytes
        slots[slot.position] = slot
    }

    /// Moves a message after all others.
    func renumber(_ slot: Slot) {
        slot.number = nextNumber
        nextNumber += 1
    }

    /// Removes a message that is done and closes its position.
    func finish(_ slot: Slot) {
        let position = slot.position
        guard slots[position] === slot else { return stop(FeedInvariantError(.notOpen(position))) }
        if !slot.isRetry {
            do throws(FeedInvariantError) { try positions.close(slot) } catch { return stop(error) }
        }
        slots[position] = nil
        forgetHandOut(slot, mayReturn: false)
        pendingBytes -= slot.bytes
        isDirty = true
        if slot.hasFailedMessage { removeFailedMessage(position) }
        unpark(slot)
        if slot.isRetry { retries.remove(position) }
    }

    /// Records a violated invariant. Later calls change nothing that is recorded.
    func stop(_ error: FeedInvariantError) {
        fault = fault ?? error
        // Requests that were just settled must wait for a record, which will never be written.
        isDirty = true
    }

    private func removeFailedMessage(_ position: FeedPosition) {
        if case .put(let failedMessage) = failedMessages[position],
            failedMessage.state == .dead || failedMessage.state == .blocked
        {
            return
        }
        failedMessages[position] = .remove
    }
}
