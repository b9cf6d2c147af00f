import LogStore

/// Retries: stored messages that are delivered again. The database may have more of them than the machine has read.
extension FeedMachine {
    /// The retries in the database that the machine has not read yet. Empty for feeds whose dead letters do not stop keys: a retry
    /// of such a feed has no fixed order among the other messages of its key.
    struct UnreadRetries: Sendable {
        /// The last retry of each key that has retries after the first page, or nil if there are too many such keys.
        var last: [FeedKey: FeedPosition]? = [:]
        /// The position up to which retries were read, or nil if there are none.
        var readTo: FeedPosition?
        /// The keys whose retries are read only together with the first page.
        var passed: Set<FeedKey> = []

        /// Notes that a page was read.
        mutating func read(to position: FeedPosition?, hasMore: Bool) {
            readTo = position
            if !hasMore { last = [:] }
        }

        /// Returns whether the key has unread retries.
        func has(_ key: FeedKey) -> Bool {
            if passed.contains(key) { return true }
            guard let readTo else { return false }
            guard let last else { return true }
            return last[key].map { $0 > readTo } ?? false
        }

        /// Returns whether the key may have unread retries before a message.
        func has(_ key: @autoclosure () -> FeedKey, before position: FeedPosition) -> Bool {
            if last?.isEmpty ?? false, passed.isEmpty { return false }
            let key = key()
            return passed.contains(key) || has(key) && readTo.map { $0 < position } ?? false
        }
    }

    /// Returns whether a message must wait until earlier retries of its key have been read from the database.
    func waitsForRetries(_ slot: Slot) -> Bool { unread.has(orderingKey(slot.message), before: slot.position) }

    /// Requests another read of the retries, from the first page, once the next commit is durable.
    func rereadRetries() {
        rereadsAfterCommit = commitCount + 1
        isDirty = true
    }

    /// Adds retries that were read from the database.
    ///
    /// - Parameters:
    ///   - retried: The messages to deliver again.
    ///   - unread: The further retries in the database.
    ///   - blocked: The keys that have a dead letter or a message set aside, or nil if this is not the first page.
    func failedMessagesChanged(retried: [FailedMessage], unread: UnreadRetries, blocked: Set<FeedKey>?) {
        let recent = blocked == nil ? [] : Array(failedMessagesInFlight.merging(failedMessages) { $1 }.values)
        if settings.stopsKeys {
            self.unread = unread
            if blocked != nil { countDeaths(recent) }
        }
        for failedMessage in retried.sorted(by: { $0.position < $1.position }) where !isLeaving(failedMessage.position)
        {
            let key = FeedKey(failedMessage.key)
            if let dead = deaths[key], dead < failedMessage.position {
                // The database set the message aside before the first page was read.
                self.unread.passed.insert(key)
                rereadRetries()
            } else {
                retry(failedMessage)
            }
        }
        guard settings.stopsKeys else { return }
        if let blocked { unblock(except: blocked, recent) }
        requeue(parked.takeAll())
    }

    /// Returns whether a message is being written as dead or set aside. The database still has its previous state.
    private func isLeaving(_ position: FeedPosition) -> Bool {
        guard slots[position] == nil, case .put(let failedMessage) = failedMessagesInFlight[position] else {
            return false
        }
        return failedMessage.state == .dead || failedMessage.state == .blocked
    }

    /// Notes the dead letters that the database may not have yet. The stored ones were read before the page.
    private func countDeaths(_ recent: [FailedMessageChange]) {
        deaths.removeAll()
        for case .put(let failedMessage) in recent where failedMessage.state == .dead {
            let key = FeedKey(failedMessage.key)
            deaths[key] = min(deaths[key] ?? failedMessage.position, failedMessage.position)
        }
    }

    /// Resumes all keys except those stopped by dead letters.
    private func unblock(except blocked: Set<FeedKey>, _ recent: [FailedMessageChange]) {
        let stillBlocked = blocked.union(deaths.keys)
        // Messages that were just set aside after a retried message of their key are delivered after it.
        let aside = recent.compactMap { change -> FailedMessage? in
            if case .put(let failedMessage) = change, failedMessage.state == .blocked,
                !stillBlocked.contains(FeedKey(failedMessage.key))
            {
                failedMessage
            } else {
                nil
            }
        }
        for failedMessage in aside.sorted(by: { $0.position < $1.position }) {
            let key = FeedKey(failedMessage.key)
            guard !unread.has(key, before: failedMessage.position) else {
                // The message will be read after the retries that precede it.
                unread.passed.insert(key)
                rereadRetries()
                continue
            }
            failedMessages[failedMessage.position] = nil
            retry(failedMessage)
            failedMessages[failedMessage.position] = .put(
                FailedMessage(
                    position: failedMessage.position, key: failedMessage.key, state: .retry,
                    attempts: failedMessage.attempts,
                    failures: failedMessage.failures, message: failedMessage.message))
            isDirty = true
        }
        blockedKeys = stillBlocked
    }

    /// Queues messages that had to wait. They come after the messages of their keys that were added in the meantime.
    func requeue(_ waiting: [Slot]) {
        if !waiting.isEmpty { isDirty = true }
        // Adopted messages may have been acknowledged in the meantime.
        for slot in waiting where slots[slot.position] === slot {
            unpark(slot)
            if !slot.isAdopted, blockedKeys.contains(orderingKey(slot.message)) {
                setAside(slot)
                continue
            }
            if waitsForRetries(slot) { park(slot) } else { renumber(slot) }
            if slot.mayBeOut { adopt(slot) }
            guard !slot.isAdopted, !slot.isParked else { continue }
            if slot.position.seq <= handedTo { enqueue(slot) } else { gated.insert(slot) }
        }
    }

    /// Makes a message wait until earlier retries of its key have been read. An adopted message waits for them
    /// once its delivery has ended.
    func park(_ slot: Slot) {
        slot.isParked = true
        if slot.isRetry { parkedRetryCount += 1 }
        parked.insert(slot)
    }

    /// Ends a message's wait for retries. The caller has removed it from `parked`, or skips it there.
    func unpark(_ slot: Slot) {
        guard slot.isParked else { return }
        slot.isParked = false
        if slot.isRetry { parkedRetryCount -= 1 }
    }
}
