/// Which messages of which keys wait, are ready, and are held.
extension FeedMachine {
    func orderingKey(_ message: FeedMessage) -> FeedKey { FeedKey(settings.ordersByKey ? message.key : "") }

    private func state(of slot: Slot) -> KeyState {
        if let key = slot.key { return key }
        let name = orderingKey(slot.message)
        let key = keys[name] ?? KeyState(name)
        keys[name] = key
        slot.key = key
        return key
    }

    /// The message waits for somebody to take it.
    func enqueue(_ slot: Slot) {
        let key = state(of: slot)
        key.queue.insert(slot)
        makeReady(key)
    }

    func makeReady(_ key: KeyState) {
        guard !key.isInLine, key.held == 0, key.waitsUntil == nil, key.unrecordedDeaths == 0,
            let first = key.queue.first
        else { return }
        key.isInLine = true
        ready.add(key, first.number)
    }

    /// Something about a key has changed: it may be ready, or have nothing left.
    func settle(_ key: KeyState) {
        makeReady(key)
        guard key.held == 0, key.queue.isEmpty, !key.isInLine, key.waitsUntil == nil, key.unrecordedDeaths == 0 else {
            return
        }
        keys[key.name] = nil
    }

    /// Sets a timer. Those that nobody wants any more go when they are most of all: deadlines may be hours away, and acknowledgements
    /// come at once.
    func schedule(_ timer: Timer, at time: Int64) {
        timers.add(timer, at: time)
        guard timers.count > 4 * slots.count + 10_000 else { return }
        timers.keep { time, timer in
            switch timer {
            case .deadline(let position): slots[position].map { $0.isHeld && $0.deadline == time } ?? false
            case .wake(let key): key.waitsUntil == time
            }
        }
    }

    // MARK: Holding

    func find(_ position: FeedPosition, heldBy consumer: String?) -> Found {
        // What was never handed out nobody can have done with.
        guard let slot = slots[position], slot.isHeld || slot.delivery > 0 else { return .missing }
        guard slot.isHeld, slot.isAdopted || consumer == nil || consumer == slot.holder?.name else { return .notHeld }
        return .held(slot)
    }

    func holder(_ consumer: String) -> Holder {
        if let holder = holders[consumer] { return holder }
        let holder = Holder(consumer)
        holders[consumer] = holder
        return holder
    }

    func hold(_ slot: Slot, _ key: KeyState, _ holder: Holder, _ opening: FeedOpening?, _ now: Moment) -> Delivery {
        nextDelivery += 1
        slot.attempts += 1
        forgetHandOut(slot)
        slot.opening = opening
        holder.add(slot)
        slot.delivery = nextDelivery
        slot.deadline = now.monotonic + settings.ackDeadlineMilliseconds
        heldCount += 1
        key.hold(slot)
        schedule(.deadline(slot.position), at: slot.deadline)
        counters.delivered += 1
        isStale = true
        if slot.attempts > 1 { counters.redelivered += 1 }
        return Delivery(message: slot.message, attempt: slot.attempts, number: slot.delivery)
    }

    func adopt(_ slot: Slot) {
        slot.isAdopted = true
        slot.mayBeOut = false
        slot.deadline = adoptedUntil
        state(of: slot).hold(slot)
        adoptedCount += 1
        schedule(.deadline(slot.position), at: adoptedUntil)
    }

    /// Whether a message is here of which it is known, or may be, that a former owner has handed it out.
    func isAdopted(_ position: FeedPosition) -> Bool { slots[position]?.isAdopted ?? false }

    /// The delivery of an adopted message has ended, and is counted as an attempt.
    func countAttempt(_ position: FeedPosition) {
        if let slot = slots[position], slot.isAdopted, !isOvertaking(slot) { slot.attempts += 1 }
    }

    /// The delivery of an adopted message has ended, or there was none, and the message is to be delivered again.
    func giveBackAdopted(_ position: FeedPosition) {
        guard let slot = slots[position], slot.isAdopted, let key = slot.key else { return }
        giveBackLater(than: slot)
        putBack(slot)
        settle(key)
    }

    func unhold(_ slot: Slot) {
        guard slot.isHeld else { return }
        slot.key?.letGo(slot)
        if slot.isAdopted { adoptedCount -= 1 }
        slot.isAdopted = false
        guard let holder = slot.holder else { return }
        holder.remove(slot)
        heldCount -= 1
        if recordsReleases { releases.append(holder.name) }
        if holder.count == 0 { holders[holder.name] = nil }
    }

    /// The message waits again, and no consumer has it.
    func putBack(_ slot: Slot) {
        if slot.isAdopted { noteOvertaken(slot) }
        unhold(slot)
        putInLine(slot)
    }

    /// Adds a message that no consumer has any more to those of its key that wait, unless it has to wait for retries of the key first.
    func putInLine(_ slot: Slot) {
        if slot.isParked { slot.key = nil } else { slot.key?.queue.insert(slot) }
    }

    /// Returns the consumers of the messages that are not held any more since the last call, one for each message.
    func takeReleases() -> [String] {
        guard !releases.isEmpty else { return [] }
        defer { releases.removeAll() }
        return releases
    }
}
