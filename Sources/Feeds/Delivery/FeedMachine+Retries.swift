/// Messages that are delivered once more, of which the database may have more than the machine.
extension FeedMachine {
    /// The retries in the database that the machine has not read yet. Empty for feeds whose dead letters stop no keys: a retry of such a feed
    /// has no place among the other messages of its key.
    struct UnreadRetries: Sendable {
        /// The last retry of each key that had some after the first page; nil where these keys are too many.
        var last: [FeedKey: FeedPosition]? = [:]
        /// The place up to which retries were read; nil where there are none.
        var readTo: FeedPosition?
        /// Keys of which retries are read only with the first page.
        var passed: Set<FeedKey> = []

        /// Notes that a page was read.
        mutating func read(to place: FeedPosition?, hasMore: Bool) {
            readTo = place
            if !hasMore { last = [:] }
        }

        /// Whether there are retries of a key.
        func has(_ key: FeedKey) -> Bool {
            if passed.contains(key) { return true }
            guard let readTo else { return false }
            guard let last else { return true }
            return last[key].map { $0 > readTo } ?? false
        }

        /// Whether there may be retries of a key that come before a message.
        func has(_ key: @autoclosure () -> FeedKey, before position: FeedPosition) -> Bool {
            if last?.isEmpty ?? false, passed.isEmpty { return false }
            let key = key()
            return passed.contains(key) || has(key) && readTo.map { $0 < position } ?? false
        }
    }

    /// Whether a message must wait until earlier ones of its key were read from the database.
    func waitsForRetries(_ slot: Slot) -> Bool { unread.has(orderingKey(slot.message), before: slot.position) }

    /// Has the retries read again from the first page, once what is to be written now is durable.
    func rereadRetries() {
        rereadsAfterCommit = commitCount + 1
        isDirty = true
    }

    /// Takes in retries that were read from the database.
    ///
    /// - Parameters:
    ///   - retried: messages to be delivered once more.
    ///   - unread: what the database has of them beyond these.
    ///   - blocked: the keys that have a dead letter, or a message that is set aside; nil where the page is not the first.
    func lettersChanged(retried: [FeedLetter], unread: UnreadRetries, blocked: Set<FeedKey>?) {
        let recent = blocked == nil ? [] : Array(lettersUnderWay.merging(letters) { $1 }.values)
        if settings.stopsKeys {
            self.unread = unread
            if blocked != nil { countDeaths(recent) }
        }
        for letter in retried.sorted(by: { $0.position < $1.position }) where !isLeaving(letter.position) {
            let key = FeedKey(letter.key)
            if let dead = deaths[key], dead < letter.position {
                // Set aside in the database before the first page is read.
                self.unread.passed.insert(key)
                rereadRetries()
            } else {
                retry(letter)
            }
        }
        guard settings.stopsKeys else { return }
        if let blocked { unblock(except: blocked, recent) }
        placeAgain(parked.takeAll())
    }

    /// Whether a message was put aside, and that is being written: the database still says what it was before.
    private func isLeaving(_ position: FeedPosition) -> Bool {
        guard slots[position] == nil, case .put(let letter) = lettersUnderWay[position] else { return false }
        return letter.state == .dead || letter.state == .blocked
    }

    /// Notes the dead letters that the database may not have yet: what it has was looked at before the page was read.
    private func countDeaths(_ recent: [LetterChange]) {
        deaths.removeAll()
        for case .put(let letter) in recent where letter.state == .dead {
            let key = FeedKey(letter.key)
            deaths[key] = min(deaths[key] ?? letter.position, letter.position)
        }
    }

    /// Resumes all keys except those that dead letters stop.
    private func unblock(except blocked: Set<FeedKey>, _ recent: [LetterChange]) {
        let stillBlocked = blocked.union(deaths.keys)
        // What was set aside just now, behind something that is to be tried again, goes on behind that.
        let aside = recent.compactMap { change -> FeedLetter? in
            if case .put(let letter) = change, letter.state == .blocked, !stillBlocked.contains(FeedKey(letter.key)) {
                letter
            } else {
                nil
            }
        }
        for letter in aside.sorted(by: { $0.position < $1.position }) {
            let key = FeedKey(letter.key)
            guard !unread.has(key, before: letter.position) else {
                // It is read after those before it.
                unread.passed.insert(key)
                rereadRetries()
                continue
            }
            letters[letter.position] = nil
            retry(letter)
            letters[letter.position] = .put(
                FeedLetter(
                    position: letter.position, key: letter.key, state: .retry, attempts: letter.attempts,
                    failures: letter.failures, message: letter.message))
            isDirty = true
        }
        blockedKeys = stillBlocked
    }

    /// Places messages that had to wait, after those of their keys that were taken in meanwhile.
    func placeAgain(_ waiting: [Slot]) {
        if !waiting.isEmpty { isDirty = true }
        // Adopted messages may have been acknowledged meanwhile.
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

    /// The message waits until earlier retries of its key were read. An adopted one waits for that when its delivery has ended.
    func park(_ slot: Slot) {
        slot.isParked = true
        if slot.isRetry { parkedRetryCount += 1 }
        parked.insert(slot)
    }

    /// The message is not to wait any more, and has left `parked` or is skipped there.
    func unpark(_ slot: Slot) {
        guard slot.isParked else { return }
        slot.isParked = false
        if slot.isRetry { parkedRetryCount -= 1 }
    }
}
