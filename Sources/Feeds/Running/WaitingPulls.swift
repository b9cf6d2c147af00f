import Runtime

/// The pulls that wait for messages of one feed, in the order of their arrival. Every operation takes O(log n).
/// A value without clock and I/O.
///
/// A pull whose consumer holds as many messages as it may is parked: it leaves the line until the consumer holds fewer. Pulls are
/// parked and woken one at a time, so that no number of them makes another pull more expensive.
struct WaitingPulls {
    typealias Completion = @Sendable (Result<[FeedDelivery], FeedRefusalError>) -> Void

    struct Waiting {
        let pull: FeedPull
        /// Whether the pull has a seat, which permits it to wait. A pull that only takes available messages has none.
        let hasSeat: Bool
        let completion: Completion
    }

    private struct Entry {
        let waiting: Waiting
        let number: UInt64
        /// Whether the pull was parked and has returned to the line.
        var isWoken = false
    }

    /// The order of a consumer's parked pulls: the pull with the highest `mostHeld` comes first, because it can be served first.
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
    /// The number of pulls in the line, without the parked ones.
    var countInLine: Int { line.count }
    /// The earliest deadline, in monotonic milliseconds.
    var nextDeadline: Milliseconds? { deadlines.first?.priority }
    /// Whether any pull waits for its consumer to hold fewer messages.
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

    /// Removes a pull that is being served.
    mutating func take(_ id: UInt64) -> Waiting? { leave(id)?.waiting }

    /// Removes a pull that is not served.
    ///
    /// - Parameter held: Returns the number of messages that a consumer holds.
    mutating func remove(_ id: UInt64, held: (String) -> Int) -> Waiting? {
        guard let entry = leave(id) else { return nil }
        let consumer = entry.waiting.pull.consumer
        // Its turn passes to the consumer's next pull.
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

    /// Returns one parked pull of a consumer to its old position in the line, if the consumer may hold one more message. Call this
    /// once for each message that the consumer ceases to hold.
    mutating func wake(_ consumer: String, holding held: Int) {
        guard let (id, claim) = parked[consumer]?.first, claim.mostHeld > held else { return }
        unpark(id, consumer)
        entries[id]?.isWoken = true
        line.set(id, to: claim.number)
    }

    /// Removes and returns the pulls whose deadline has passed.
    mutating func expire(at now: Milliseconds, held: (String) -> Int) -> [Waiting] {
        var expired: [Waiting] = []
        while let (id, deadline) = deadlines.first, deadline <= now {
            if let waiting = remove(id, held: held) { expired.append(waiting) } else { deadlines.remove(id) }
        }
        return expired
    }

    /// Removes all pulls and returns them in the order of their arrival.
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
