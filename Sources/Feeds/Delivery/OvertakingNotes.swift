/// The messages that are still to be delivered although a former run of the feed may have handed out later messages of their keys.
///
/// The later messages are delivered again even if consumers acknowledge them, so that no message is done before an earlier one of its key.
///
/// A run that notes a message delivers it, and then delivers the later ones itself, in order. A note therefore concerns only the deliveries
/// that were numbered before the run that made the note:
///
///     run 1   delivers 7, 8
///     run 2   8 arrives from the reader, 7 is given back: note "7, deliveries of run 1"; delivers 7, then 8
///     run 3   inherits the note; 8 is out as a delivery of run 2, and its outcome counts
struct OvertakingNotes: Sendable {
    struct Note: Sendable {
        /// The message. Later ones of its key are concerned.
        let position: FeedPosition
        /// The last delivery that is concerned.
        let lastDelivery: UInt64

        func concerns(_ slot: FeedMachine.Slot) -> Bool {
            position < slot.position && slot.formerDelivery <= lastDelivery
        }

        fileprivate func covers(_ other: Note) -> Bool {
            position <= other.position && lastDelivery >= other.lastDelivery
        }
    }

    /// Each key has at most one note of a run, and none that another note covers.
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

/// Messages that a former run may have handed out, and what overtakes what among them.
extension FeedMachine {
    /// Whether an adopted message is delivered again even if its consumer acknowledges it.
    func isOvertaking(_ slot: Slot) -> Bool { slot.isAdopted && overtakingTest(slot)(slot) }

    /// Returns a test that distinguishes the overtaking messages of a message's key from other adopted ones, by the notes up to now.
    func overtakingTest(_ slot: Slot) -> (Slot) -> Bool {
        guard !overtaken.isEmpty else { return { _ in false } }
        let notes = overtaken.notes(of: orderingKey(slot.message))
        let stopsKeys = settings.stopsKeys
        // Where dead letters stop no key, retries have lost their places.
        return { other in (!other.isRetry || stopsKeys) && notes.contains { $0.concerns(other) } }
    }

    /// Notes that a message is to be delivered again, or is not out, while later ones of its key may be out.
    func noteOvertaken(_ slot: Slot) {
        guard !slot.isRetry || settings.stopsKeys else { return }
        overtaken.add(
            OvertakingNotes.Note(position: slot.position, lastDelivery: firstDelivery), to: orderingKey(slot.message))
    }

    /// Forgets what is known of former runs' deliveries once all of these have ended. The next run would inherit what concerns messages that the
    /// log does not bring again.
    func forgetFormerDeliveries(_ now: Moment) {
        guard adoptedCount == 0, now.monotonic >= adoptedUntil else { return }
        if !overtaken.isEmpty { overtaken.removeAll() }
        if !formerDeliveries.isEmpty { formerDeliveries.removeAll() }
        if adoptedPlaces?.isEmpty == false { adoptedPlaces = [] }
    }

    /// Whether messages may be out that a former run handed out.
    var hasFormerDeliveries: Bool { adoptedCount > 0 || adoptedPlaces.map { !$0.isEmpty } ?? true }

    /// The places of messages that consumers hold or, after a takeover, may hold.
    var heldPlaces: Set<FeedPosition> { Set(slots.values.lazy.filter { $0.isHeld || $0.mayBeOut }.map(\.position)) }

    /// The keys of these messages.
    var heldKeys: Set<FeedKey> {
        Set(slots.values.lazy.filter { $0.isHeld || $0.mayBeOut }.map { self.orderingKey($0.message) })
    }

    /// The numbers of the deliveries that are out, as far as they are known.
    var heldDeliveries: [FeedPosition: UInt64] {
        var numbers = formerDeliveries
        for slot in slots.values where slot.isHeld || slot.mayBeOut {
            let number = slot.holder == nil ? slot.formerDelivery : slot.delivery
            if number > 0 { numbers[slot.position] = number }
        }
        return numbers
    }
}
