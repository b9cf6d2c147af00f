import Runtime

/// The pulls that wait for messages of one feed, in the order of their arrival. Every operation takes O(log n). A value without clock and I/O.
///
/// A pull of a consumer that holds as many messages as it may is parked: the line does not pass it again until the consumer holds fewer. Pulls
/// are parked and woken one at a time, so that no number of them makes another pull more expensive.
struct WaitingPulls {
    typealias Completion = @Sendable (Result<[FeedDelivery], FeedRefusalError>) -> Void

    struct Waiting {
        let pull: FeedPull
        /// Whether the pull counts among those that may wait. One that only takes what there is does not.
        let hasSeat: Bool
        let completion: Completion
    }

    private struct Entry {
        let waiting: Waiting
        let number: UInt64
        /// Whether it has been parked and is in the line again.
        var isWoken = false
    }

    /// The order of a consumer's parked pulls: those that may hold the most messages first, as they can be served first.
    private struct Claim: Comparable {
        let mostHeld: Int
        let number: UInt64

        static func < (left: Claim, right: Claim) -> Bool {
            left.mostHeld != right.mostHeld ? left.mostHeld > right.mostHeld : left.number < right.number
        }
    }

    private var entries: [UInt64: Entry] = [:]
    private var line = IndexedHeap<UInt64, UInt64>()
    private var parked: [String: IndexedHeap<UInt64, Claim>] = [:]
    private var deadlines = IndexedHeap<UInt64, Milliseconds>()
    private var lastNumber: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }
    /// The number of pulls that are in the line: all but the parked ones.
    var countInLine: Int { line.count }
    /// The earliest deadline, in monotonic milliseconds.
    var nextDeadline: Milliseconds? { deadlines.first?.priority }
    /// Whether some pull waits for its consumer to hold fewer messages.
    var hasParked: Bool { !parked.isEmpty }

    /// The pull that is served next.
    var first: FeedPull? { line.first.flatMap { entries[$0.key] }?.waiting.pull }

    mutating func add(_ waiting: Waiting) {
        lastNumber += 1
        let id = waiting.pull.id
        entries[id] = Entry(waiting: waiting, number: lastNumber)
        line.set(id, to: lastNumber)
        deadlines.set(id, to: waiting.pull.deadline)
    }

    /// Takes a pull out that is served.
    mutating func take(_ id: UInt64) -> Waiting? { leave(id)?.waiting }

    /// Takes a pull out that is not served.
    ///
    /// - Parameter held: Returns the number of messages that a consumer holds.
    mutating func remove(_ id: UInt64, held: (String) -> Int) -> Waiting? {
        guard let entry = leave(id) else { return nil }
        let consumer = entry.waiting.pull.consumer
        // Its turn passes to the consumer's next one.
        if entry.isWoken { wake(consumer, holding: held(consumer)) }
        return entry.waiting
    }

    /// Takes a pull out of the line until its consumer holds fewer messages.
    mutating func park(_ id: UInt64) {
        guard var entry = entries[id], line.remove(id) != nil else { return }
        entry.isWoken = false
        entries[id] = entry
        let pull = entry.waiting.pull
        parked[pull.consumer, default: IndexedHeap()]
            .set(id, to: Claim(mostHeld: pull.mostHeld ?? .max, number: entry.number))
    }

    /// Puts one parked pull of a consumer back into the line, at its old place, if the consumer may hold one more message. Called once for each
    /// message that the consumer does not hold any more.
    mutating func wake(_ consumer: String, holding held: Int) {
        guard let (id, claim) = parked[consumer]?.first, claim.mostHeld > held else { return }
        unpark(id, consumer)
        entries[id]?.isWoken = true
        line.set(id, to: claim.number)
    }

    /// Takes the pulls out whose deadline has come.
    mutating func expire(at now: Milliseconds, held: (String) -> Int) -> [Waiting] {
        var expired: [Waiting] = []
        while let (id, deadline) = deadlines.first, deadline <= now {
            if let waiting = remove(id, held: held) { expired.append(waiting) } else { deadlines.remove(id) }
        }
        return expired
    }

    /// Takes all pulls out, in the order of their arrival.
    mutating func removeAll() -> [Waiting] {
        let all = entries.values.sorted { $0.number < $1.number }.map(\.waiting)
        self = WaitingPulls()
        return all
    }

    private mutating func leave(_ id: UInt64) -> Entry? {
        guard let entry = entries.removeValue(forKey: id) else { return nil }
        deadlines.remove(id)
        if line.remove(id) == nil { unpark(id, entry.waiting.pull.consumer) }
        return entry
    }

    private mutating func unpark(_ id: UInt64, _ consumer: String) {
        parked[consumer]?.remove(id)
        if parked[consumer]?.isEmpty == true { parked[consumer] = nil }
    }
}
