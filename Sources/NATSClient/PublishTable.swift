import Runtime

/// The messages of a client: those that wait to be sent, and those that wait for their acknowledgement. Pure: what has to be
/// done is returned, and done by whoever holds the lock.
struct PublishTable: Sendable {
    typealias Completion = @Sendable (Result<NATSAcknowledgement, NATSError>) -> Void

    struct Item: Sendable {
        let token: UInt64
        let message: NATSMessage
        let completion: Completion
    }

    private var waiting: [Item] = []
    private var sent: [UInt64: Item] = [:]
    /// Of all items, in the order of their coming: all have the same patience. Those that are done stay until their time.
    private var deadlines: [(at: Milliseconds, token: UInt64)] = []
    private var firstDeadline = 0
    private var lastToken: UInt64 = 0
    private let limit: Int
    private let timeoutMilliseconds: Milliseconds

    init(limit: Int, timeoutMilliseconds: Milliseconds) {
        self.limit = limit
        self.timeoutMilliseconds = timeoutMilliseconds
    }

    var count: Int { waiting.count + sent.count }

    /// False when there are too many.
    mutating func add(_ message: NATSMessage, at now: Milliseconds, _ completion: @escaping Completion) -> Bool {
        guard count < limit else { return false }
        lastToken += 1
        waiting.append(Item(token: lastToken, message: message, completion: completion))
        deadlines.append((now + timeoutMilliseconds, lastToken))
        return true
    }

    /// All that wait; from now on they wait for their acknowledgements.
    mutating func takeWaiting() -> [Item] {
        let items = waiting
        waiting.removeAll()
        for item in items { sent[item.token] = item }
        return items
    }

    /// The item of an acknowledgement, or of what could not be sent; nil where nobody waits for it any more.
    mutating func take(_ token: UInt64) -> Item? { sent.removeValue(forKey: token) }

    /// Those that were sent, in order: their connection has ended.
    mutating func takeSent() -> [Item] {
        let items = sent.values.sorted { $0.token < $1.token }
        sent.removeAll()
        return items
    }

    /// Those whose time is over, in order.
    mutating func takeExpired(at now: Milliseconds) -> [Item] {
        var expired: [Item] = []
        while firstDeadline < deadlines.count, deadlines[firstDeadline].at <= now {
            let token = deadlines[firstDeadline].token
            firstDeadline += 1
            if let item = sent.removeValue(forKey: token) {
                expired.append(item)
            } else if waiting.first?.token == token {
                expired.append(waiting.removeFirst())
            }
        }
        forgetOldDeadlines()
        return expired
    }

    /// When the next one's time is over; nil where none waits.
    mutating func nextDeadline() -> Milliseconds? {
        while firstDeadline < deadlines.count, !isOpen(deadlines[firstDeadline].token) { firstDeadline += 1 }
        forgetOldDeadlines()
        return firstDeadline < deadlines.count ? deadlines[firstDeadline].at : nil
    }

    private func isOpen(_ token: UInt64) -> Bool {
        // Those that wait have tokens without gaps, as nobody leaves but from the front.
        if let first = waiting.first?.token, token >= first { return true }
        return sent[token] != nil
    }

    /// Old ones go when they are half of all, so that each costs the same however many there are.
    private mutating func forgetOldDeadlines() {
        guard firstDeadline * 2 > deadlines.count else { return }
        deadlines.removeFirst(firstDeadline)
        firstDeadline = 0
    }
}
