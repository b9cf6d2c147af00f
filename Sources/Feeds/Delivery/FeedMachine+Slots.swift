import LogStore
import Runtime

/// What a commit of a feed's progress holds.
struct FeedCommit: Sendable {
    let namespace: String
    var progress: FeedProgress
    var letters: [FeedPosition: FeedMachine.LetterChange]
    var counters: FeedMachine.Counters
}

extension FeedMachine {
    /// A message that is not done.
    struct Slot: Sendable {
        let message: FeedMessage
        let isRetry: Bool
        let bytes: Int
        /// Deliveries that count, with the present one.
        var attempts = 0
        var failures: [FeedFailure] = []
        /// Whether the database has a letter of it.
        var hasLetter = false
        /// Who has it.
        var holder: String?
        /// Who has it, or had it last.
        var lastHolder: String?
        /// It is not known who has it, or whether somebody does.
        var isAdopted = false
        var deadline: Int64 = 0
        /// Counts all deliveries of the feed.
        var delivery: UInt64 = 0
        /// Neighbours among those that come in order.
        var previous: Int?
        var next: Int?
        /// What is done between this one and the next.
        var doneBehind: ClosedRange<FeedPosition>?
    }

    /// The messages of one key.
    struct KeyState: Sendable {
        /// Those that nobody has, in order.
        var queue = NumberQueue()
        var held = 0
        /// Not before then.
        var waitsUntil: Int64?
        var isInLine = false
    }

    enum Timer: Sendable {
        case deadline(Int)
        case wake(String)
    }

    /// What becomes of a message's letter.
    enum LetterChange: Sendable {
        case put(FeedLetter)
        case remove
    }

    enum Found {
        case held(Int)
        case notHeld
        case missing
    }

    /// The keys that have something for whoever asks, those first whose next message is the oldest.
    struct KeyLine: Sendable {
        private var heap = TimerHeap<String>()

        var isEmpty: Bool { heap.earliest == nil }
        /// The number of the oldest message.
        var first: Int? { heap.earliest.map { Int($0) } }

        mutating func add(_ key: String, _ number: Int) { heap.add(key, at: Int64(number)) }

        mutating func popFirst() -> String? { heap.take(by: .max)?.item }
    }

    func orderingKey(_ message: FeedMessage) -> String { settings.ordersByKey ? message.key : "" }

    func find(_ position: FeedPosition, heldBy consumer: String?) -> Found {
        guard let number = numbers[position], let slot = slots[number] else { return .missing }
        // What was never handed out nobody can have done with.
        guard slot.holder != nil || slot.delivery > 0 else { return .missing }
        guard let holder = slot.holder, slot.isAdopted || consumer == nil || consumer == holder else { return .notHeld }
        return .held(number)
    }

    // MARK: In and out

    mutating func append(_ message: FeedMessage, isRetry: Bool, _ letter: FeedLetter?) -> Int {
        let number = nextNumber
        nextNumber += 1
        var slot = Slot(message: message, isRetry: isRetry, bytes: message.estimatedBytes)
        if let letter {
            slot.attempts = isRetry ? 0 : letter.attempts
            slot.failures = letter.failures
            slot.hasLetter = true
        }
        if !isRetry {
            slot.previous = lastInOrder
            if let last = lastInOrder { slots[last]?.next = number } else { firstInOrder = number }
            lastInOrder = number
        }
        count(bytes: slot.bytes)
        if isRetry { retryCount += 1 }
        slots[number] = slot
        if numbers[message.position] == nil { numbers[message.position] = number }
        return number
    }

    /// The message is done: it leaves, and its place joins what is done around it.
    mutating func finish(_ number: Int) {
        guard let slot = slots.removeValue(forKey: number) else { return }
        let position = slot.message.position
        if numbers[position] == number { numbers[position] = nil }
        count(bytes: -slot.bytes)
        isDirty = true
        if slot.hasLetter, !isPutAside(position) { letters[position] = .remove }
        guard !slot.isRetry else {
            retryCount -= 1
            return
        }
        if let previous = slot.previous {
            let first = slots[previous]?.doneBehind?.lowerBound ?? position
            slots[previous]?.doneBehind = first...(slot.doneBehind?.upperBound ?? position)
            slots[previous]?.next = slot.next
        } else {
            firstInOrder = slot.next
            lastDone = slot.doneBehind?.upperBound ?? position
        }
        if let next = slot.next { slots[next]?.previous = slot.previous } else { lastInOrder = slot.previous }
    }

    /// Whether the message leaves as one that is kept elsewhere.
    private func isPutAside(_ position: FeedPosition) -> Bool {
        guard case .put(let letter) = letters[position] else { return false }
        return letter.state == .dead || letter.state == .blocked
    }

    /// The message waits for somebody to take it.
    mutating func enqueue(_ number: Int, _ key: String) {
        keys[key, default: KeyState()].queue.insert(number)
        makeReady(key)
    }

    mutating func makeReady(_ key: String) {
        guard let state = keys[key], !state.isInLine, state.held == 0, state.waitsUntil == nil,
            let first = state.queue.first
        else { return }
        keys[key]?.isInLine = true
        ready.add(key, first)
    }

    /// Something about a key has changed: it may be ready, or have nothing left.
    mutating func settle(_ key: String) {
        makeReady(key)
        if let state = keys[key], state.held == 0, state.queue.isEmpty, !state.isInLine, state.waitsUntil == nil {
            keys[key] = nil
        }
    }

    /// Sets a timer. Those that nobody wants any more go when they are most of all: deadlines may be hours away, and acknowledgements come at once.
    mutating func schedule(_ timer: Timer, at time: Int64) {
        timers.add(timer, at: time)
        guard timers.count > 4 * slots.count + 10_000 else { return }
        timers.keep { time, timer in
            switch timer {
            case .deadline(let number): slots[number].map { $0.holder != nil && $0.deadline == time } ?? false
            case .wake(let key): keys[key]?.waitsUntil == time
            }
        }
    }

    // MARK: Holding

    mutating func hold(_ number: Int, _ key: String, _ consumer: String, _ now: Moment) -> Delivery? {
        guard var slot = slots[number] else { return nil }
        nextDelivery += 1
        slot.attempts += 1
        slot.holder = consumer
        slot.lastHolder = consumer
        slot.delivery = nextDelivery
        slot.deadline = now.monotonic + settings.ackDeadlineMilliseconds
        slots[number] = slot
        keys[key]?.held += 1
        holders[consumer, default: []].insert(number)
        schedule(.deadline(number), at: slot.deadline)
        counters.delivered += 1
        if slot.attempts > 1 { counters.redelivered += 1 }
        return Delivery(message: slot.message, attempt: slot.attempts)
    }

    mutating func adopt(_ number: Int, _ key: String) {
        slots[number]?.holder = ""
        slots[number]?.isAdopted = true
        let deadline = adoptionEnd
        slots[number]?.deadline = deadline
        keys[key, default: KeyState()].held += 1
        schedule(.deadline(number), at: deadline)
    }

    mutating func unhold(_ number: Int) {
        guard let slot = slots[number], let holder = slot.holder else { return }
        let key = orderingKey(slot.message)
        slots[number]?.holder = nil
        slots[number]?.isAdopted = false
        keys[key]?.held -= 1
        guard !slot.isAdopted else { return }
        holders[holder]?.remove(number)
        if holders[holder]?.isEmpty ?? false { holders[holder] = nil }
    }

    // MARK: Failing

    mutating func fail(_ number: Int, _ delay: Int64?, _ reason: String, _ isFinal: Bool, _ now: Moment) {
        guard let slot = slots[number] else { return }
        let key = orderingKey(slot.message)
        // What this consumer has of the key behind it must not be done first.
        if let holder = slot.holder {
            if slot.isAdopted {
                giveBackAdopted(behind: number, of: key)
            } else {
                giveBackLater(than: slot.delivery, of: key, holder)
            }
        }
        unhold(number)
        let attempts = max(1, slot.attempts)
        var failures = slot.failures
        failures.append(
            FeedFailure(
                time: Timestamp.iso8601(unixMilliseconds: now.unix), attempt: attempts,
                reason: String(reason.prefix(2_000))))
        failures = failures.suffix(settings.keptFailures)
        slots[number]?.failures = failures
        slots[number]?.attempts = attempts
        slots[number]?.hasLetter = true
        isDirty = true
        guard attempts < settings.maxAttempts, !isFinal else { return bury(number, key) }
        letters[slot.message.position] = .put(
            FeedLetter(
                position: slot.message.position, key: key, state: slot.isRetry ? .retry : .failing,
                attempts: attempts, failures: failures, message: slot.isRetry ? slot.message : nil))
        keys[key]?.queue.insert(number)
        let pause = delay ?? backoff(after: attempts)
        if pause > 0 {
            let until = now.monotonic + pause
            keys[key]?.waitsUntil = until
            schedule(.wake(key), at: until)
        }
        settle(key)
    }

    private func backoff(after attempts: Int) -> Int64 {
        let factor = Int64(1) << Int64(min(attempts - 1, 30))
        let (pause, isBeyond) = settings.firstBackoffMilliseconds.multipliedReportingOverflow(by: factor)
        return isBeyond ? settings.maxBackoffMilliseconds : min(pause, settings.maxBackoffMilliseconds)
    }

    private mutating func giveBackLater(than delivery: UInt64, of key: String, _ holder: String) {
        guard keys[key].map({ $0.held > 1 }) ?? false else { return }
        for other in holders[holder] ?? [] {
            guard let slot = slots[other], slot.delivery > delivery, orderingKey(slot.message) == key else { continue }
            unhold(other)
            slots[other]?.attempts -= 1
            keys[key]?.queue.insert(other)
        }
    }

    /// What a former owner may have handed out of a key went to one consumer.
    private mutating func giveBackAdopted(behind number: Int, of key: String) {
        guard keys[key].map({ $0.held > 1 }) ?? false else { return }
        for (other, slot) in slots where other > number && slot.isAdopted && orderingKey(slot.message) == key {
            unhold(other)
            keys[key]?.queue.insert(other)
        }
    }

    /// The message is a dead letter; what follows of its key goes on, or is set aside.
    private mutating func bury(_ number: Int, _ key: String) {
        guard let slot = slots[number] else { return }
        let position = slot.message.position
        letters[position] = .put(
            FeedLetter(
                position: position, key: key, state: .dead, attempts: slot.attempts, failures: slot.failures,
                message: slot.message))
        finish(number)
        if settings.stopsKeys {
            blockedKeys.insert(key)
            while let next = keys[key]?.queue.popFirst() { setAside(next, key) }
            let waiting = gated.all.filter { number in slots[number].map { orderingKey($0.message) == key } ?? false }
            guard !waiting.isEmpty else { return settle(key) }
            gated.keep { !waiting.contains($0) }
            for next in waiting { setAside(next, key) }
        }
        settle(key)
    }

    /// The message is kept behind a dead letter of its key.
    mutating func setAside(_ number: Int, _ key: String) {
        guard let slot = slots[number] else { return }
        let position = slot.message.position
        letters[position] = .put(
            FeedLetter(
                position: position, key: key, state: .blocked, attempts: slot.attempts, failures: slot.failures,
                message: slot.message))
        finish(number)
    }

    /// Whether a message was put aside, and that is being written: the database still says what it was before.
    private func isLeaving(_ position: FeedPosition) -> Bool {
        guard numbers[position] == nil, case .put(let letter) = lettersUnderWay[position] else { return false }
        return letter.state == .dead || letter.state == .blocked
    }

    /// What the database has of letters by now, after an administrator has changed some.
    ///
    /// - Parameters:
    ///   - retried: those to be delivered once more.
    ///   - blocked: the keys that still have a dead letter, or one behind it.
    mutating func lettersChanged(retried: [FeedLetter], blocked: Set<String>) {
        for letter in retried.sorted(by: { $0.position < $1.position }) where !isLeaving(letter.position) {
            retry(letter)
        }
        guard settings.stopsKeys else { return }
        var stillBlocked = blocked
        let recent = lettersUnderWay.merging(letters) { $1 }.values
        for case .put(let letter) in recent where letter.state == .dead { stillBlocked.insert(letter.key) }
        // What was set aside just now, behind something that is to be tried again, goes on behind that.
        let aside = recent.compactMap { change -> FeedLetter? in
            if case .put(let letter) = change, letter.state == .blocked, !stillBlocked.contains(letter.key) {
                letter
            } else {
                nil
            }
        }
        for letter in aside.sorted(by: { $0.position < $1.position }) {
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
}
