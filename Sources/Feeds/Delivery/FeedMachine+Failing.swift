import LogStore
import Runtime

/// Failed attempts and dead letters.
extension FeedMachine {
    func fail(_ slot: Slot, _ delay: Int64?, _ reason: String, _ isFinal: Bool, _ now: Moment) {
        guard let key = slot.key else { return }
        let isLast = max(1, slot.attempts) >= settings.maxAttempts || isFinal
        let dies = isLast && mayStore
        // Later messages of the key that this consumer holds must not become done first.
        giveBackLater(than: slot)
        if slot.isAdopted { noteOvertaken(slot) }
        unhold(slot)
        forgetHandOut(slot)
        slot.attempts = max(1, slot.attempts)
        slot.failures.append(
            FeedFailure(
                time: Timestamp.iso8601(unixMilliseconds: now.unix), attempt: slot.attempts, reason: reason))
        slot.failures = FeedFailure.kept(slot.failures)
        slot.hasFailedMessage = true
        isDirty = true
        if dies { return bury(slot, key) }
        if isLast {
            isShortOfRoom = true
            // The next attempt is again the last one.
            slot.attempts = min(slot.attempts, settings.maxAttempts - 1)
        }
        // The message itself is already in the log or in its row, so it is not written with each failure.
        failedMessages[slot.position] = FailedMessageChange.put(
            failedMessage(slot, slot.isRetry ? .retry : .failing, nil)
        )
        .keepingMessage(of: failedMessages[slot.position])
        putInLine(slot)
        let pause =
            isLast
            ? max(delay ?? 0, settings.maxBackoffMilliseconds)
            : delay ?? spread(backoff(after: slot.attempts), by: slot.delivery)
        if pause > 0 {
            let until = now.monotonic + pause
            key.waitsUntil = until
            schedule(.wake(key), at: until)
        }
        settle(key)
    }

    private func failedMessage(_ slot: Slot, _ state: FailedMessage.State, _ message: FeedMessage?) -> FailedMessage {
        FailedMessage(
            position: slot.position, key: orderingKey(slot.message).text, state: state, attempts: slot.attempts,
            failures: slot.failures, message: message)
    }

    private func backoff(after attempts: Int) -> Int64 {
        let factor = Int64(1) << Int64(min(attempts - 1, 30))
        let (pause, isBeyond) = settings.firstBackoffMilliseconds.multipliedReportingOverflow(by: factor)
        return isBeyond ? settings.maxBackoffMilliseconds : min(pause, settings.maxBackoffMilliseconds)
    }

    /// Lengthens a pause by up to a fifth, so that messages that failed together are not retried together.
    private func spread(_ pause: Int64, by delivery: UInt64) -> Int64 {
        pause + pause * Int64((delivery &* 0x9E37_79B9_7F4A_7C15) >> 40 % 21) / 100
    }

    /// Puts back messages that follow a message in its key: those that the same consumer received later, and adopted messages,
    /// because a previous owner delivered all messages of a key to one consumer.
    ///
    /// Overtaking messages stay: another consumer may hold them, and their deliveries do not count in any case. O(held messages of
    /// the key that were delivered later).
    func giveBackLater(than slot: Slot) {
        // The test must be made before the messages that are put back below are noted.
        let isOvertaking = overtakingTest(slot)
        var next = slot.nextHeld
        while let other = next {
            next = other.nextHeld
            if other.isAdopted {
                if slot.turn < other.turn, !isOvertaking(other) { putBack(other) }
            } else if other.holder === slot.holder {
                forgetHandOut(other)
                other.attempts -= 1
                putBack(other)
            }
        }
    }

    /// Puts back the adopted messages of a key that follow a dead letter of the key, so that they are set aside.
    /// O(held messages of the key).
    private func giveBackAdopted(of key: KeyState, after position: FeedPosition) {
        var next = key.lastHeld
        while let other = next {
            next = other.previousHeld
            if other.isAdopted, position < other.position { putBack(other) }
        }
    }

    /// Makes the message a dead letter. Later messages of its key are delivered once the dead letter is durable, or are set aside.
    private func bury(_ slot: Slot, _ key: KeyState) {
        key.unrecordedDeaths += 1
        buried.append(key)
        failedMessages[slot.position] = .put(failedMessage(slot, .dead, slot.message))
        noteStored(slot)
        finish(slot)
        if settings.stopsKeys {
            blockedKeys.insert(key.name)
            let first = min(deaths[key.name] ?? slot.position, slot.position)
            deaths[key.name] = first
            giveBackAdopted(of: key, after: first)
            for next in key.queue.keep({ $0.position < first }) { setAside(next) }
            for next in gated.keep({ orderingKey($0.message) != key.name }) { setAside(next) }
            if unread.has(key.name) {
                for next in parked.keep({ $0.position < first || orderingKey($0.message) != key.name }) {
                    // Messages that were acknowledged are no longer in `slots`.
                    guard slots[next.position] === next else { continue }
                    unpark(next)
                    setAside(next)
                }
                rereadRetries()
            }
        }
        settle(key)
    }

    /// Sets a message aside after a dead letter of its key: in the database, or in memory while the database has no room.
    func setAside(_ slot: Slot) {
        guard mayStore else {
            isShortOfRoom = true
            slot.key = nil
            return unstored.insert(slot)
        }
        noteStored(slot)
        failedMessages[slot.position] = .put(failedMessage(slot, .blocked, slot.message))
        finish(slot)
    }
}

/// The limit on stored messages: dead letters, and messages set aside after them.
///
/// No message is dropped when the limit is reached. A message whose last attempt failed is retried after the longest pause.
/// Messages that should be set aside wait in memory, and the reader waits as well once the window is full.
extension FeedMachine {
    /// The number and bytes of the messages that the database stores for a feed.
    struct Stored: Sendable, Equatable {
        var count: Int64 = 0
        var bytes: Int64 = 0
    }

    var mayStore: Bool { stored.count < settings.mostStored && stored.bytes < settings.mostStoredBytes }

    func noteStored(_ slot: Slot) {
        stored.count += 1
        stored.bytes += Int64(min(slot.bytes, StoredMessage.maxBytes))
    }

    /// Sets the amount stored in the database after an administrator has changed it. Call this after `failedMessagesChanged`.
    func storedChanged(_ known: Stored) {
        stored = known
        // Add the messages that have yet to be written.
        for case .put(let failedMessage) in failedMessagesInFlight.merging(failedMessages, uniquingKeysWith: { $1 })
            .values
        where failedMessage.state == .dead || failedMessage.state == .blocked {
            stored.count += 1
            stored.bytes += Int64(min(failedMessage.message?.estimatedBytes ?? 0, StoredMessage.maxBytes))
        }
        if mayStore { isShortOfRoom = false }
        requeue(unstored.takeAll())
    }
}
