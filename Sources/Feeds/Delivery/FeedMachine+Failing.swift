import Runtime

/// Failed attempts, dead letters, and what is kept of them.
extension FeedMachine {
    func fail(_ slot: Slot, _ delay: Int64?, _ reason: String, _ isFinal: Bool, _ now: Moment) {
        guard let key = slot.key else { return }
        let isLast = max(1, slot.attempts) >= settings.maxAttempts || isFinal
        let dies = isLast && mayStore
        // What this consumer has of the key behind it must not be done first.
        giveBackLater(than: slot, stops: dies && settings.stopsKeys)
        noteReturn(of: slot)
        unhold(slot)
        forgetHandOut(slot)
        slot.attempts = max(1, slot.attempts)
        slot.failures.append(
            FeedFailure(
                time: Timestamp.iso8601(unixMilliseconds: now.unix), attempt: slot.attempts, reason: reason))
        slot.failures = FeedFailure.kept(slot.failures)
        slot.hasLetter = true
        isDirty = true
        if dies { return bury(slot, key) }
        if isLast {
            isShortOfRoom = true
            // The next attempt is the last one again.
            slot.attempts = min(slot.attempts, settings.maxAttempts - 1)
        }
        // The message is in the log, or in its row already: it is not written with each failure.
        letters[slot.position] = LetterChange.put(letter(slot, slot.isRetry ? .retry : .failing, nil))
            .keepingMessage(of: letters[slot.position])
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

    private func letter(_ slot: Slot, _ state: FeedLetter.State, _ message: FeedMessage?) -> FeedLetter {
        FeedLetter(
            position: slot.position, key: orderingKey(slot.message).text, state: state, attempts: slot.attempts,
            failures: slot.failures, message: message)
    }

    private func backoff(after attempts: Int) -> Int64 {
        let factor = Int64(1) << Int64(min(attempts - 1, 30))
        let (pause, isBeyond) = settings.firstBackoffMilliseconds.multipliedReportingOverflow(by: factor)
        return isBeyond ? settings.maxBackoffMilliseconds : min(pause, settings.maxBackoffMilliseconds)
    }

    /// Up to a fifth longer, so that what has failed together does not come together again.
    private func spread(_ pause: Int64, by delivery: UInt64) -> Int64 {
        pause + pause * Int64((delivery &* 0x9E37_79B9_7F4A_7C15) >> 40 % 21) / 100
    }

    /// Keeps the later messages of a key from being done before a message that is to be delivered again.
    ///
    /// Puts back what the same consumer received later. An adopted message stays with the consumer that may have it, but its delivery does
    /// not count any more: a former owner handed all messages of a key to one consumer.
    /// A key's held messages are in order. O(those whose state changes).
    ///
    /// - Parameter stops: Whether the key stops at the message. All later messages are put back then, and are set aside.
    func giveBackLater(than slot: Slot, stops: Bool = false) {
        var next = slot.nextHeld
        while let other = next {
            next = other.nextHeld
            if other.isAdopted, !stops {
                // All adopted messages after it are, too.
                if other.isOvertaking { break }
                other.isOvertaking = true
            } else if other.isAdopted {
                putBack(other)
            } else if other.holder === slot.holder {
                forgetHandOut(other)
                other.attempts -= 1
                putBack(other)
            }
        }
    }

    /// Makes the message a dead letter. Later messages of its key are delivered once the letter is durable, or are set aside.
    private func bury(_ slot: Slot, _ key: KeyState) {
        key.unrecordedDeaths += 1
        buried.append(key)
        letters[slot.position] = .put(letter(slot, .dead, slot.message))
        noteStored(slot)
        finish(slot)
        if settings.stopsKeys {
            blockedKeys.insert(key.name)
            let first = min(deaths[key.name] ?? slot.position, slot.position)
            deaths[key.name] = first
            for next in key.queue.keep({ $0.position < first }) { setAside(next) }
            for next in gated.keep({ orderingKey($0.message) != key.name }) { setAside(next) }
            if unread.has(key.name) {
                for next in parked.keep({ $0.position < first || orderingKey($0.message) != key.name }) {
                    // Those that were acknowledged have left.
                    if slots[next.position] === next { setAside(next) }
                }
                rereadRetries()
            }
        }
        settle(key)
    }

    /// The message is kept behind a dead letter of its key: in the database, or in memory while there is no room.
    func setAside(_ slot: Slot) {
        guard mayStore else {
            isShortOfRoom = true
            slot.key = nil
            return unstored.insert(slot)
        }
        noteStored(slot)
        letters[slot.position] = .put(letter(slot, .blocked, slot.message))
        finish(slot)
    }
}
