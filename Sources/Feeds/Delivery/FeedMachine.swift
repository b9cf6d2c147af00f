import LogStore
import Runtime

/// Decides who gets which message of a feed when, and what is done: order by key, holding, deadlines, attempts, backoff, dead
/// letters, and the place that is kept. Without I/O and without a clock; belongs to one thread.
///
/// Messages come from the reader in the order of their places and leave when they are done. All times are monotonic milliseconds, but for
/// those of failures, which people read.
///
/// A message that is not done has a `Slot`. The slot is in one of these states:
///
///     push ──┬──► gated ─── `handedTo` is durable ───┬──► queued ─── pull ───► held ─── acknowledge ───► done
///            ├──► parked ── earlier retries are read ┤      ▲                   │ │
///            └──► held, adopted                      │      └ failed, given back ┘ └─── last attempt ───► dead
///     retry ─────────────────────────────────────────┘
///
/// - Gated: the feed's row in the database must first say that messages of this entry may be handed out (`handedTo`).
/// - Parked: the database may have earlier messages of the key to retry, which the machine has not read yet. When they are read,
///   the message is queued, or gated.
/// - Queued: the message waits in the queue of its key. The key is ready (`ready`) while no message of the key is held, the
///   key does not wait after a failed attempt, and the dead letters of the key are durable.
/// - Held (out): a consumer has the message until `deadline`. If the deadline passes, the attempt has failed. After a takeover
///   the machine adopts the messages that a former owner may have handed out: it treats them as held until `adoptedUntil`, and
///   queues them then. Retries can be adopted, too.
/// - Done: the slot is removed, and `DonePlaces` closes the position.
/// - Dead: the database stores the message as a dead letter, and the slot is removed. If dead letters stop their keys, the
///   machine sets the later messages of the key aside: the database stores them as blocked. While the database has as many
///   stored messages as it may have, a message does not become a dead letter but is retried after the longest pause, and
///   messages that should be set aside wait in memory (`unstored`).
///
/// An administrator can have dead letters delivered again. The database then gives them to the machine as retries (`retry`).
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

        /// Dead letters and messages that are set aside, at most; and about how many bytes they may have.
        var mostStored: Int64 = 100_000
        var mostStoredBytes: Int64 = 1 << 30

        init() {}
    }

    /// A message that is handed out.
    struct Delivery: Sendable {
        let message: FeedMessage
        let attempt: Int
        /// Counts all deliveries of the machine.
        let number: UInt64
    }

    enum Result: String, Sendable {
        case done, unknown, expired
    }

    /// The present time, by both clocks.
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
    /// The messages that consumers hold, without adopted ones.
    var heldCount = 0
    /// Whether the consumers of messages that are not held any more are recorded, for pulls that wait until their consumer holds fewer.
    var recordsReleases = false
    var releases: [String] = []
    /// The newest opening of each consumer, while it is open or may be acknowledged by the next.
    var openings: [String: HandOuts] = [:]
    /// Messages that wait until it is written down that they may be handed out.
    var gated = SlotQueue()
    private var nextNumber = 0
    var nextDelivery: UInt64 = 0
    /// Which messages of those that come in order are done.
    var places: DonePlaces
    /// What does not hold that has to: from then on nothing is handed out and nothing recorded. The run ends, and a new machine starts from
    /// what was recorded last.
    private(set) var fault: FeedInvariantError?
    /// Durable.
    var handedTo: Int64
    private(set) var lastPushedSeq: Int64
    var pace = FeedPace()
    /// What a former owner may have handed out counts as held until then.
    let adoptedThrough: Int64
    let adoptedUntil: Int64
    /// Where it is known exactly what is out: that, and nothing else.
    /// The place of a message leaves the set when the message comes.
    var adoptedPlaces: Set<FeedPosition>?
    /// Keys of which something is out, where it is known exactly what is out.
    var adoptedKeys: Set<FeedKey> = []
    /// The messages whose later ones may be out; see the type.
    var overtaken = OvertakingNotes()
    /// The numbers of former runs' deliveries, as far as they are known. `UInt64.max` marks a message that has arrived at the sink.
    var formerDeliveries: [FeedPosition: UInt64] = [:]
    /// The number before that of the first delivery of this run.
    let firstDelivery: UInt64
    /// The number of adopted messages.
    var adoptedCount = 0
    var blockedKeys: Set<FeedKey> = []
    /// The retries that were not read from the database yet, and the new messages that wait until they are.
    var unread = UnreadRetries()
    var parked = SlotQueue()
    /// The keys of the dead letters that are to be written down, and of those that are being written.
    var buried: [KeyState] = []
    var beingBuried: [KeyState] = []
    /// The first dead letter of each key since the first page of retries was read, where dead letters stop their keys.
    var deaths: [FeedKey: FeedPosition] = [:]
    /// The retries are to be read again from the first page once this commit is durable.
    var rereadsAfterCommit: Int64?
    var rereadsRetries = false
    /// Dead letters and messages that are set aside; and those that would be, and wait for room.
    var stored = Stored()
    var unstored = SlotQueue()
    /// Whether a message could not be stored.
    var isShortOfRoom = false
    var commitCount: Int64 = 0
    /// Messages that are delivered once more and not done.
    private var retries = IndexedHeap<FeedPosition, FeedPosition>()
    var retryCount: Int { retries.count }
    /// Retries that do not wait for unread retries. When few are left, the next page is read.
    var readyRetryCount: Int { retries.count - parkedRetryCount }
    var parkedRetryCount = 0
    var letters: [FeedPosition: LetterChange] = [:]
    /// Those that are being written.
    var lettersUnderWay: [FeedPosition: LetterChange] = [:]
    var counters = Counters()
    private(set) var pendingBytes = 0
    /// Whether there is something to write down at once.
    var isDirty = false
    /// Whether there is something to write down that has time: the log was read, or messages were handed out.
    var isStale = false

    /// - Parameters:
    ///   - progress: where the feed goes on.
    ///   - adoptedThrough: a former owner may have handed out messages of entries up to this one.
    ///   - adoptedUntil: until when they count as held.
    ///   - firstDelivery: the number before that of the first delivery; different for each machine of a feed.
    init(
        _ settings: Settings, from progress: FeedProgress, adoptedThrough: Int64 = 0, adoptedUntil: Int64 = 0,
        firstDelivery: UInt64 = 0
    ) {
        self.settings = settings
        places = DonePlaces(from: progress)
        handedTo = progress.handedTo
        lastPushedSeq = progress.seq
        self.adoptedThrough = adoptedThrough
        self.adoptedUntil = adoptedUntil
        self.firstDelivery = firstDelivery
        nextDelivery = firstDelivery
    }

    deinit {
        // Slots, their keys, their holders and openings know one another.
        for key in keys.values { key.queue.removeAll() }
        for holder in holders.values { holder.removeAll() }
        for opening in openings.values { opening.removeAll() }
        places.removeAll()
    }

    // MARK: Figures

    var pendingCount: Int { slots.count }
    /// How many more messages the reader may bring, and about how many bytes of them.
    var room: Int { settings.windowMessages - slots.count }
    var byteRoom: Int { settings.windowBytes - pendingBytes }
    /// Whether somebody can be given something.
    var hasReady: Bool { fault == nil && !ready.isEmpty }
    var readTo: LogCursor { places.readTo }
    /// The first message that is not done; where all of the log are, the first of those that are delivered once more.
    var oldest: FeedMessage? {
        places.first.flatMap { slots[$0]?.message }
            ?? retries.first.flatMap { slots[$0.key] }?.message
    }

    // MARK: From the reader

    /// Takes a message that an entry has brought, or the snapshot. A message that does not come after the last one is a fault.
    ///
    /// - Parameter letter: what is known of earlier attempts.
    func push(_ message: FeedMessage, failed letter: FeedLetter? = nil, now: Moment) {
        guard fault == nil else { return }
        let mayBeOut = mayBeOut(message.position)
        adoptedPlaces?.remove(message.position)
        do throws(FeedInvariantError) {
            guard let slot = try open(message, letter) else { return }
            place(slot, mayBeOut: mayBeOut, now)
        } catch {
            stop(error)
        }
    }

    /// Nil where the message is done, or delivered from the database.
    private func open(_ message: FeedMessage, _ letter: FeedLetter?) throws(FeedInvariantError) -> Slot? {
        let slot: Slot?
        if let stored = slots[message.position] {
            // What is stored to be delivered once more comes from there, and only from there.
            try places.pass(stored)
            slot = nil
        } else {
            let made = Slot(message, number: nextNumber, isRetry: false, isOrderedByPlace: settings.stopsKeys)
            slot = try places.open(made) ? made : nil
        }
        lastPushedSeq = max(lastPushedSeq, message.position.seq)
        if let slot {
            keep(slot, letter)
        } else {
            isDirty = true
            if letter != nil { removeLetter(message.position) }
        }
        return slot
    }

    private func place(_ slot: Slot, mayBeOut: Bool, _ now: Moment) {
        let position = slot.position
        pace.measure(lastPushedSeq, at: now.monotonic)
        slot.mayBeOut = mayBeOut && now.monotonic < adoptedUntil
        // A former run settled it but did not record that. Later messages of its key may still be out.
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
        // Written down ahead, so that nothing has to wait for it.
        if position.seq + handedAhead / 2 > handedTo { isDirty = true }
        enqueue(slot)
    }

    /// Whether a former owner, or an earlier run, may have handed out a message that comes now.
    private func mayBeOut(_ position: FeedPosition) -> Bool {
        position.seq <= adoptedThrough && (adoptedPlaces?.contains(position) ?? true)
    }

    /// All messages of entries up to there were pushed.
    func read(to cursor: LogCursor) {
        guard places.read(to: cursor) else { return }
        lastPushedSeq = max(lastPushedSeq, cursor.seq)
        isStale = true
    }

    /// All messages of the snapshot's tree were pushed: what follows are the entries behind it.
    func readSnapshot(at cursor: LogCursor) {
        places.readSnapshot()
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
        let slot = Slot(message, number: nextNumber, isRetry: true, isOrderedByPlace: settings.stopsKeys)
        keep(slot, letter)
        // Others of the key may be out, too, and not be read yet.
        let isKnownOut = adoptedPlaces?.contains(slot.position) ?? true
        let isOut =
            adoptedPlaces.map { _ in isKnownOut || adoptedKeys.contains(orderingKey(message)) }
            ?? (mayBeOut || adoptedThrough > 0)
        adoptedPlaces?.remove(slot.position)
        guard isOut else { return enqueue(slot) }
        if !isKnownOut { noteOvertaken(slot) }
        adopt(slot)
    }

    // MARK: In and out

    private func keep(_ slot: Slot, _ letter: FeedLetter?) {
        nextNumber += 1
        if let letter {
            slot.attempts = slot.isRetry ? 0 : letter.attempts
            slot.failures = letter.failures
            slot.hasLetter = true
        }
        if !formerDeliveries.isEmpty { slot.formerDelivery = formerDeliveries.removeValue(forKey: slot.position) ?? 0 }
        if slot.isRetry { retries.set(slot.position, to: slot.position) }
        pendingBytes += slot.bytes
        slots[slot.position] = slot
    }

    /// The message comes behind all others from now on.
    func renumber(_ slot: Slot) {
        slot.number = nextNumber
        nextNumber += 1
    }

    /// The message is done: it leaves, and its place joins what is done around it.
    func finish(_ slot: Slot) {
        let position = slot.position
        guard slots[position] === slot else { return stop(FeedInvariantError(.notOpen(position))) }
        if !slot.isRetry {
            do throws(FeedInvariantError) { try places.close(slot) } catch { return stop(error) }
        }
        slots[position] = nil
        forgetHandOut(slot, mayReturn: false)
        pendingBytes -= slot.bytes
        isDirty = true
        if slot.hasLetter { removeLetter(position) }
        unpark(slot)
        if slot.isRetry { retries.remove(position) }
    }

    /// Notes what does not hold. What is told to the machine afterwards changes nothing that is recorded.
    func stop(_ error: FeedInvariantError) {
        fault = fault ?? error
        // What was settled just now must wait for a record, which there will not be.
        isDirty = true
    }

    private func removeLetter(_ position: FeedPosition) {
        if case .put(let letter) = letters[position], letter.state == .dead || letter.state == .blocked { return }
        letters[position] = .remove
    }
}
