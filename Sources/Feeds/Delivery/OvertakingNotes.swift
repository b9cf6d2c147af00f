import LogStore

/// The messages that have yet to be delivered although a previous run of the feed may have delivered later messages of their keys.
///
/// The later messages are delivered again even if consumers acknowledge them, so that no message is done before an
/// earlier message of its key.
///
/// A run that notes a message delivers it, and then delivers the later messages itself, in order. A note therefore concerns only
/// the deliveries with numbers from before the run that made the note:
///
///     run 1   delivers 7, 8
///     run 2   8 arrives from the reader, 7 is put back: note "7, deliveries of run 1"; delivers 7, then 8
///     run 3   inherits the note; 8 is held as a delivery of run 2, and its outcome counts
struct OvertakingNotes: Sendable {
    struct Note: Sendable {
        /// The message. The note concerns later messages of its key.
        let position: FeedPosition
        /// The last delivery that the note concerns.
        let lastDelivery: UInt64

        func concerns(_ slot: FeedMachine.Slot) -> Bool {
            position < slot.position && slot.formerDelivery <= lastDelivery
        }

        fileprivate func covers(_ other: Note) -> Bool {
            position <= other.position && lastDelivery >= other.lastDelivery
        }
    }

    /// The notes by key. A key has at most one note of each run, and no note that another note covers.
    private var notes: [FeedKey: [Note]] = [:]

    var isEmpty: Bool { notes.isEmpty }

    func notes(of key: FeedKey) -> [Note] { notes[key] ?? [] }

    mutating func add(_ note: Note, to key: FeedKey) {
        var kept = notes[key] ?? []
        guard !kept.contains(where: { $0.covers(note) }) else { return }
        kept.removeAll { note.covers($0) }
        kept.append(note)
        notes[key] = kept
    }

    mutating func removeAll() { notes.removeAll() }
}

/// Messages that a previous run may have delivered, and the order among them.
extension FeedMachine {
    /// Returns whether an adopted message is delivered again even if its consumer acknowledges it.
    func isOvertaking(_ slot: Slot) -> Bool { slot.isAdopted && overtakingTest(slot)(slot) }

    /// Returns a test that distinguishes a key's overtaking messages from other adopted messages, according to the notes made so far.
    func overtakingTest(_ slot: Slot) -> (Slot) -> Bool {
        guard !overtaken.isEmpty else { return { _ in false } }
        let notes = overtaken.notes(of: orderingKey(slot.message))
        let stopsKeys = settings.stopsKeys
        // If dead letters do not stop keys, retries have no fixed order.
        return { other in (!other.isRetry || stopsKeys) && notes.contains { $0.concerns(other) } }
    }

    /// Notes that a message is delivered again, or was not delivered, while later messages of its key may be held.
    func noteOvertaken(_ slot: Slot) {
        guard !slot.isRetry || settings.stopsKeys else { return }
        overtaken.add(
            OvertakingNotes.Note(position: slot.position, lastDelivery: firstDelivery), to: orderingKey(slot.message))
    }

    /// Forgets the deliveries of previous runs once all of them have ended. Otherwise the next run would inherit notes about
    /// messages that the log does not bring again.
    func forgetFormerDeliveries(_ now: Moment) {
        guard adoptedCount == 0, now.monotonic >= adoptedUntil else { return }
        if !overtaken.isEmpty { overtaken.removeAll() }
        if !formerDeliveries.isEmpty { formerDeliveries.removeAll() }
        if adoptedPositions?.isEmpty == false { adoptedPositions = [] }
    }

    /// Whether messages may still be held that a previous run delivered.
    var hasFormerDeliveries: Bool { adoptedCount > 0 || adoptedPositions.map { !$0.isEmpty } ?? true }

    /// The positions of the messages that consumers hold or, after a takeover, may hold.
    var heldPositions: Set<FeedPosition> { Set(slots.values.lazy.filter { $0.isHeld || $0.mayBeOut }.map(\.position)) }

    /// The keys of the messages in `heldPositions`.
    var heldKeys: Set<FeedKey> {
        Set(slots.values.lazy.filter { $0.isHeld || $0.mayBeOut }.map { self.orderingKey($0.message) })
    }

    /// The known numbers of the current deliveries.
    var heldDeliveries: [FeedPosition: UInt64] {
        var numbers = formerDeliveries
        for slot in slots.values where slot.isHeld || slot.mayBeOut {
            let number = slot.holder == nil ? slot.formerDelivery : slot.delivery
            if number > 0 { numbers[slot.position] = number }
        }
        return numbers
    }
}
