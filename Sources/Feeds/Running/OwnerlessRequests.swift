import Runtime

/// The requests that wait until a gateway runs their feed. Every operation takes O(log n) for each request that it adds or returns.
/// A value without clock and I/O.
struct OwnerlessRequests {
    struct Request {
        let command: FeedCommand
        /// The time until which the request waits, in monotonic milliseconds.
        let deadline: Milliseconds
        /// The number of times that the routes had been reported when the request arrived.
        let routesReported: Int
    }

    private var requests: [UInt64: Request] = [:]
    /// The requests of each feed, in the order of arrival.
    private var lines: [FeedName: IndexedHeap<UInt64, UInt64>] = [:]
    private var deadlines = IndexedHeap<UInt64, Milliseconds>()
    private var pulls: [UInt64: UInt64] = [:]
    private var lastNumber: UInt64 = 0

    var count: Int { requests.count }
    var nextDeadline: Milliseconds? { deadlines.first?.priority }
    /// The feeds with waiting requests.
    var feeds: [FeedName] { Array(lines.keys) }

    /// Adds a pull or a settlement. Other commands do not wait.
    mutating func add(_ request: Request) {
        guard let feed = request.command.feed else { return }
        lastNumber += 1
        requests[lastNumber] = request
        lines[feed, default: IndexedHeap()].set(lastNumber, to: lastNumber)
        deadlines.set(lastNumber, to: request.deadline)
        if case .pull(let pull, _) = request.command { pulls[pull.id] = lastNumber }
    }

    /// Returns the oldest request for a feed.
    func first(of feed: FeedName) -> Request? { lines[feed]?.first.flatMap { requests[$0.key] } }

    /// Removes and returns the oldest request for a feed.
    mutating func takeFirst(of feed: FeedName) -> Request? { lines[feed]?.first.flatMap { take($0.key) } }

    /// Removes and returns a pull that has been cancelled.
    mutating func remove(pull id: UInt64) -> Request? { pulls[id].flatMap { take($0) } }

    /// Removes and returns the requests whose deadline has passed.
    mutating func expire(at now: Milliseconds) -> [Request] {
        var expired: [Request] = []
        while let (number, deadline) = deadlines.first, deadline <= now {
            if let request = take(number) { expired.append(request) } else { deadlines.remove(number) }
        }
        return expired
    }

    /// Removes all requests and returns them in the order of arrival.
    mutating func removeAll() -> [Request] {
        let all = requests.sorted { $0.key < $1.key }.map(\.value)
        self = OwnerlessRequests()
        return all
    }

    private mutating func take(_ number: UInt64) -> Request? {
        guard let request = requests.removeValue(forKey: number) else { return nil }
        deadlines.remove(number)
        if case .pull(let pull, _) = request.command { pulls[pull.id] = nil }
        if let feed = request.command.feed {
            lines[feed]?.remove(number)
            if lines[feed]?.isEmpty == true { lines[feed] = nil }
        }
        return request
    }
}

extension FeedCommand {
    /// The feed of a request that may wait for an owner, or nil for other commands.
    var feed: FeedName? {
        switch self {
        case .pull(let pull, _): pull.feed
        case .settle(let name, _, _, _, _, _): name
        default: nil
        }
    }
}
