/// What consumers ask for and say.
extension FeedMachine {
    /// Hands out up to so many messages, the oldest first. Those of one key go to one consumer at a time, in order.
    ///
    /// - Parameters:
    ///   - mostBytes: about how many bytes they have together at most; the first goes whatever its size.
    ///   - opening: the connection that asks; nil for a request that stands for itself.
    func pull(
        _ most: Int, mostBytes: Int = .max, by consumer: String, _ opening: FeedOpening? = nil, now: Moment
    ) -> [Delivery] {
        guard most > 0, hasReady else { return [] }
        let handOuts = handOuts(of: consumer, opening)
        let holder = holder(consumer)
        defer { if holder.count == 0 { holders[consumer] = nil } }
        var deliveries: [Delivery] = []
        // Keys of which this pull has some already, and could have more.
        var own = KeyLine()
        var bytes = 0
        while deliveries.count < most, bytes < mostBytes {
            let isOwn = own.first.map { mine in ready.first.map { mine < $0 } ?? true } ?? false
            guard let key = isOwn ? own.popFirst() : ready.popFirst() else { break }
            if !isOwn { key.isInLine = false }
            // While it was in the line, messages of the key may have come that a former owner has handed out, or all of it gone.
            guard isOwn || key.held == 0 && key.unrecordedDeaths == 0, let slot = key.queue.popFirst() else {
                settle(key)
                continue
            }
            deliveries.append(hold(slot, key, holder, opening, now))
            handOuts?.add(slot)
            bytes += slot.bytes
            if let next = key.queue.first { own.add(key, next.number) }
        }
        // They come back into the line when nobody holds any of them.
        return deliveries
    }

    /// A consumer has done with a message.
    ///
    /// - Parameter consumer: must be who holds it; nil for whoever does.
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

    /// A consumer could not do with a message: it comes again later, or is a dead letter.
    ///
    /// - Parameters:
    ///   - delay: how long to wait; nil for the feed's backoff.
    ///   - isFinal: whether trying again is no use.
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

    /// A consumer needs so long from now on.
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

    /// Messages did not reach the consumer that they were for: they go back and don't count as attempts.
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

    /// When something is due next.
    var nextDue: Int64? { timers.earliest }

    /// Takes back what was held for too long, and makes ready what has waited long enough.
    func advance(to now: Moment) {
        forgetFormerDeliveries(now)
        while let (time, timer) = timers.take(by: now.monotonic) {
            switch timer {
            case .deadline(let position):
                guard let slot = slots[position], slot.isHeld, slot.deadline == time else { continue }
                if let holder = slot.holder {
                    let who = holder.name.isEmpty ? "the consumer" : "consumer \(holder.name)"
                    fail(slot, 0, "not acknowledged in time by \(who)", false, now)
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
