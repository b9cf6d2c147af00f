import LogStore

/// The waiting, ready and held messages of each key.
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

    /// Adds a message to the queue of its key.
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

    /// Makes a key ready if it can be, and removes it if it has no messages left. Call this after each change of a key.
    func settle(_ key: KeyState) {
        makeReady(key)
        guard key.held == 0, key.queue.isEmpty, !key.isInLine, key.waitsUntil == nil, key.unrecordedDeaths == 0 else {
            return
        }
        keys[key.name] = nil
    }

    /// Sets a timer. Removes the obsolete timers once they are the majority: deadlines may be hours away, while
    /// acknowledgements arrive soon.
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
        // A message that was never delivered cannot be acknowledged.
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

    /// Returns whether the machine has adopted the message: a previous owner has delivered it or may have done so.
    func isAdopted(_ position: FeedPosition) -> Bool { slots[position]?.isAdopted ?? false }

    /// Counts the ended delivery of an adopted message as an attempt.
    func countAttempt(_ position: FeedPosition) {
        if let slot = slots[position], slot.isAdopted, !isOvertaking(slot) { slot.attempts += 1 }
    }

    /// Puts an adopted message back for delivery after its delivery has ended or turned out not to exist.
    func giveBackAdopted(_ position: FeedPosition) {
        guard let slot = slots[position], slot.isAdopted, let key = slot.key else { return }
        giveBackLater(than: slot)
        putBack(slot)
        settle(key)
    }

    func unhold(_ slot: Slot) {
        guard slot.isHeld else { return }
        slot.key?.release(slot)
        if slot.isAdopted { adoptedCount -= 1 }
        slot.isAdopted = false
        guard let holder = slot.holder else { return }
        holder.remove(slot)
        heldCount -= 1
        if recordsReleases { releases.append(holder.name) }
        if holder.count == 0 { holders[holder.name] = nil }
    }

    /// Takes a message from its consumer and puts it back into the queue of its key.
    func putBack(_ slot: Slot) {
        if slot.isAdopted { noteOvertaken(slot) }
        unhold(slot)
        putInLine(slot)
    }

    /// Adds an unheld message to the queue of its key, unless it must first wait for retries of the key.
    func putInLine(_ slot: Slot) {
        if slot.isParked { slot.key = nil } else { slot.key?.queue.insert(slot) }
    }

    /// Returns the consumers of the messages that have ceased to be held since the last call, one element for each message.
    func takeReleases() -> [String] {
        guard !releases.isEmpty else { return [] }
        defer { releases.removeAll() }
        return releases
    }
}
