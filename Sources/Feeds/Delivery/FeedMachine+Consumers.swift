import LogStore

/// The requests of consumers.
extension FeedMachine {
    /// Delivers up to `most` messages, the oldest first. The messages of a key are delivered in order and to one consumer at a time.
    ///
    /// - Parameters:
    ///   - mostBytes: The approximate maximum of their total size. The first message is delivered regardless of its size.
    ///   - opening: The connection that pulls, or nil if the request belongs to no opening.
    func pull(
        _ most: Int, mostBytes: Int = .max, by consumer: String, _ opening: FeedOpening? = nil, now: Moment
    ) -> [Delivery] {
        guard most > 0, hasReady else { return [] }
        let handOuts = handOuts(of: consumer, opening)
        let holder = holder(consumer)
        defer { if holder.count == 0 { holders[consumer] = nil } }
        var deliveries: [Delivery] = []
        // The keys of which this pull already has messages and may receive more.
        var own = KeyLine()
        var bytes = 0
        while deliveries.count < most, bytes < mostBytes {
            let isOwn = own.first.map { mine in ready.first.map { mine < $0 } ?? true } ?? false
            guard let key = isOwn ? own.popFirst() : ready.popFirst() else { break }
            if !isOwn { key.isInLine = false }
            // While the key was in the line, messages may have arrived that a previous owner has delivered, or all
            // its messages may have left.
            guard isOwn || key.held == 0 && key.unrecordedDeaths == 0, let slot = key.queue.popFirst() else {
                settle(key)
                continue
            }
            deliveries.append(hold(slot, key, holder, opening, now))
            handOuts?.add(slot)
            bytes += slot.bytes
            if let next = key.queue.first { own.add(key, next.number) }
        }
        // The keys return to the line once none of their messages is held.
        return deliveries
    }

    /// Marks a message as done.
    ///
    /// - Parameter consumer: The consumer that must hold the message, or nil for any consumer.
    func acknowledge(_ position: FeedPosition, by consumer: String?) -> Result {
        switch find(position, heldBy: consumer) {
        case .held(let slot) where isOvertaking(slot):
            giveBackAdopted(position)
            return .expired
        case .held(let slot):
            acknowledge(slot)
            if let key = slot.key { settle(key) }
            return .done
        case .notHeld: return .expired
        case .missing: return .unknown
        }
    }

    func acknowledge(_ slot: Slot) {
        unhold(slot)
        counters.acknowledged += 1
        finish(slot)
    }

    /// Fails a message: it is delivered again later, or becomes a dead letter.
    ///
    /// - Parameters:
    ///   - delay: The pause before the next attempt, or nil for the feed's backoff.
    ///   - isFinal: Whether further attempts would be useless.
    func reject(
        _ position: FeedPosition, by consumer: String?, after delay: Int64?, reason: String, isFinal: Bool = false,
        now: Moment
    ) -> Result {
        switch find(position, heldBy: consumer) {
        case .held(let slot) where isOvertaking(slot):
            giveBackAdopted(position)
            return .expired
        case .held(let slot):
            fail(slot, delay, reason, isFinal, now)
            return .done
        case .notHeld: return .expired
        case .missing: return .unknown
        }
    }

    /// Moves the deadline of a message to the given time from now.
    func extend(_ position: FeedPosition, by consumer: String?, to milliseconds: Int64, now: Moment) -> Result {
        switch find(position, heldBy: consumer) {
        case .held(let slot) where isOvertaking(slot):
            giveBackAdopted(position)
            return .expired
        case .held(let slot):
            slot.deadline = now.monotonic + milliseconds
            schedule(.deadline(position), at: slot.deadline)
            return .done
        case .notHeld: return .expired
        case .missing: return .unknown
        }
    }

    /// Returns messages that did not reach their consumer. The deliveries do not count as attempts.
    func giveBack(_ positions: [FeedPosition], of consumer: String) {
        for position in positions {
            guard case .held(let slot) = find(position, heldBy: consumer), !slot.isAdopted else { continue }
            forgetHandOut(slot)
            slot.attempts -= 1
            putBack(slot)
            if let key = slot.key { settle(key) }
        }
    }

    // MARK: Time

    /// The time at which the next timer expires, in monotonic milliseconds.
    var nextDue: Int64? { timers.earliest }

    /// Fails the deliveries whose deadline has passed, and makes the keys ready whose pause has ended.
    func advance(to now: Moment) {
        forgetFormerDeliveries(now)
        while let (time, timer) = timers.take(by: now.monotonic) {
            switch timer {
            case .deadline(let position):
                guard let slot = slots[position], slot.isHeld, slot.deadline == time else { continue }
                if let holder = slot.holder {
                    let consumerText = holder.name.isEmpty ? "the consumer" : "consumer \(holder.name)"
                    fail(slot, 0, "not acknowledged in time by \(consumerText)", false, now)
                } else {
                    giveBackAdopted(position)
                }
            case .wake(let key):
                guard let until = key.waitsUntil, until <= now.monotonic else { continue }
                key.waitsUntil = nil
                settle(key)
            }
        }
    }
}
