/// Connections of consumers, and what a consumer acknowledges by naming the last message that it received.
extension FeedMachine {
    /// A consumer opens a connection. Acknowledges what the consumer's former opening was handed up to a message, in the
    /// order of delivery, and puts everything else that the consumer holds back, which does not count as an attempt.
    ///
    /// Acknowledges nothing where the id does not name a delivery by the former opening, or the message changed hands since; and leaves
    /// out messages of a key of which an earlier message is not done, so that no key is processed out of order. The id of a message,
    /// without the number of a delivery, names none if the former opening was handed the message more than once.
    ///
    /// - Parameters:
    ///   - opening: the new connection; nil where the consumer is handed nothing by it.
    ///   - id: the last message that the consumer received.
    func open(_ consumer: String, _ opening: FeedOpening?, after id: FeedEventID?) {
        let former = openings.removeValue(forKey: consumer)
        if let former {
            if let id { acknowledge(former, through: id) }
            former.removeAll()
        }
        giveBack(holders[consumer]?.slots ?? [])
        guard let opening else { return }
        openings[consumer] = HandOuts(opening, of: consumer, base: id?.position)
        // Gateways that died announced the end of none of their streams.
        if openings.count > 2 * slots.count + 10_000 { openings = openings.filter { $0.value.count > 0 } }
    }

    /// A connection of a consumer ended: what it was handed and the consumer still holds goes back, which does not count as
    /// an attempt. The consumer's next opening may still acknowledge it.
    ///
    /// - Parameter opening: nil for all that the consumer holds.
    func release(_ consumer: String, _ opening: FeedOpening?) {
        if let holder = holders[consumer] { giveBack(opening.map { holder.slots(of: $0) } ?? holder.slots) }
        guard let record = openings[consumer], opening == nil || record.opening == opening else { return }
        record.isOpen = false
        dropIfOver(record)
    }

    /// A message did not reach the connection that it was handed to: it goes back, and that was no attempt.
    ///
    /// - Parameter delivery: the number of the delivery.
    func unsent(_ position: FeedPosition, delivery: UInt64) {
        guard let slot = slots[position], slot.delivery == delivery else { return }
        forgetHandOut(slot)
        guard slot.holder != nil else { return }
        slot.attempts -= 1
        putBack(slot)
        if let key = slot.key { settle(key) }
    }

    /// The consumer's present connection, if that is the one named. What others are handed is acknowledged by itself only.
    func handOuts(of consumer: String, _ opening: FeedOpening?) -> HandOuts? {
        guard let opening, let record = openings[consumer], record.opening == opening else { return nil }
        return record
    }

    /// The message is done, has failed, or was handed out again: the opening that had it says nothing about it any more.
    ///
    /// - Parameter mayReturn: False if the message is done.
    func forgetHandOut(_ slot: Slot, mayReturn: Bool = true) {
        guard let record = slot.handOuts else { return }
        record.remove(slot, mayReturn: mayReturn)
        dropIfOver(record)
    }

    private func dropIfOver(_ record: HandOuts) {
        guard record.count == 0, !record.isOpen, openings[record.consumer] === record else { return }
        openings[record.consumer] = nil
    }

    private func giveBack(_ given: [Slot]) {
        for slot in given {
            slot.attempts -= 1
            putBack(slot)
        }
        for slot in given { if let key = slot.key { settle(key) } }
    }

    // MARK: By inference

    /// What is known of a key of which messages may be acknowledged.
    private struct Line {
        let key: KeyState
        /// How many messages of the key the consumer holds.
        var held = 0
        /// The turn of the first message of the key that stays undone.
        var bound: Turn?
        /// Whether nothing of the key is acknowledged.
        var isClosed = false

        mutating func lower(to turn: Turn) { bound = bound.map { min($0, turn) } ?? turn }

        func admits(_ slot: Slot) -> Bool { !isClosed && bound.map { slot.turn < $0 } ?? true }
    }

    /// Acknowledges what an opening was handed, up to a message. O(what the consumer holds and was handed).
    private func acknowledge(_ former: HandOuts, through id: FeedEventID) {
        guard let last = slots[id.position], last.handOuts === former, former.names(last, by: id) else { return }
        let lastDelivery = last.delivery
        let candidates = former.through(last)
        let isCandidate = { (slot: Slot) in slot.handOuts === former && slot.delivery <= lastDelivery }
        var lines: [ObjectIdentifier: Line] = [:]
        for slot in candidates {
            if let key = slot.key { lines[ObjectIdentifier(key)] = Line(key: key) }
        }
        for slot in holders[former.consumer]?.slots ?? [] {
            guard let key = slot.key, lines[ObjectIdentifier(key)] != nil else { continue }
            lines[ObjectIdentifier(key)]?.held += 1
            if !isCandidate(slot) { lines[ObjectIdentifier(key)]?.lower(to: slot.turn) }
        }
        for (id, line) in lines {
            if line.key.held != line.held {
                // Another consumer holds an earlier message of the key, or may hold it.
                lines[id]?.isClosed = true
            } else if let first = line.key.queue.first(where: { !isCandidate($0) }) {
                lines[id]?.lower(to: first.turn)
            }
        }
        for slot in candidates where slot.isHeld {
            guard let key = slot.key, let line = lines[ObjectIdentifier(key)], line.admits(slot) else { continue }
            acknowledge(slot)
        }
        for line in lines.values {
            while let first = line.key.queue.first, line.admits(first), isCandidate(first) {
                _ = line.key.queue.popFirst()
                acknowledge(first)
            }
            settle(line.key)
        }
    }
}
