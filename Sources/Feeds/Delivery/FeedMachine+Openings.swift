import LogStore

/// Connections of consumers, and acknowledgement by naming the last message received.
extension FeedMachine {
    /// Opens a connection of a consumer. Acknowledges the messages that the consumer's previous opening received up to `id`, in the
    /// order of delivery. All other messages that the consumer holds go back, which does not count as an attempt.
    ///
    /// Acknowledges nothing if the id does not name a delivery by the previous opening, or if the message has changed hands since.
    /// Skips messages of a key that has an earlier undone message, so that no key is processed out of order. A message id without a
    /// delivery number names no delivery if the previous opening received the message more than once.
    ///
    /// - Parameters:
    ///   - opening: The new connection, or nil if the consumer receives no messages through it.
    ///   - id: The last message that the consumer received.
    func open(_ consumer: String, _ opening: FeedOpening?, after id: FeedEventID?) {
        let former = openings.removeValue(forKey: consumer)
        if let former {
            if let id { acknowledge(former, through: id) }
            former.removeAll()
        }
        giveBack(holders[consumer]?.slots ?? [])
        guard let opening else { return }
        openings[consumer] = HandOuts(opening, of: consumer, base: id?.position)
        // Gateways that died did not report the end of their streams.
        if openings.count > 2 * slots.count + 10_000 { openings = openings.filter { $0.value.count > 0 } }
    }

    /// Ends a connection of a consumer. The messages that it received and the consumer still holds go back, which does not count as
    /// an attempt. The consumer's next opening may still acknowledge them.
    ///
    /// - Parameter opening: The connection, or nil for all messages that the consumer holds.
    func release(_ consumer: String, _ opening: FeedOpening?) {
        if let holder = holders[consumer] { giveBack(opening.map { holder.slots(of: $0) } ?? holder.slots) }
        guard let record = openings[consumer], opening == nil || record.opening == opening else { return }
        record.isOpen = false
        dropIfOver(record)
    }

    /// Puts back a message that did not reach its connection. The delivery does not count as an attempt.
    ///
    /// - Parameter delivery: The number of the delivery.
    func unsent(_ position: FeedPosition, delivery: UInt64) {
        guard let slot = slots[position], slot.delivery == delivery else { return }
        forgetHandOut(slot)
        guard slot.holder != nil else { return }
        slot.attempts -= 1
        putBack(slot)
        if let key = slot.key { settle(key) }
    }

    /// Returns the record of the consumer's current connection, or nil if `opening` is not that connection. Messages delivered to
    /// other connections can only be acknowledged individually.
    func handOuts(of consumer: String, _ opening: FeedOpening?) -> HandOuts? {
        guard let opening, let record = openings[consumer], record.opening == opening else { return nil }
        return record
    }

    /// Removes a message from the record of its opening, because it is done, has failed or was delivered again.
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

    // MARK: Acknowledging by the last message

    /// The state of a key during an acknowledgement by the last message.
    private struct Line {
        let key: KeyState
        /// The number of messages of the key that the consumer holds.
        var held = 0
        /// The turn of the first message of the key that remains undone.
        var bound: Turn?
        /// Whether no message of the key is acknowledged.
        var isClosed = false

        mutating func lower(to turn: Turn) { bound = bound.map { min($0, turn) } ?? turn }

        func admits(_ slot: Slot) -> Bool { !isClosed && bound.map { slot.turn < $0 } ?? true }
    }

    /// Acknowledges the messages that an opening received, up to a message. O(messages that the consumer holds or received).
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
                // Another consumer holds or may hold an earlier message of the key.
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
