import Runtime

/// The messages of a client: those that wait to be sent, and those that wait for their acknowledgement. Pure: methods return the
/// items on which the caller, which holds the lock, must act.
struct PublishTable: Sendable {
    typealias Completion = @Sendable (Result<NATSAcknowledgement, NATSError>) -> Void

    struct Item: Sendable {
        let token: UInt64
        let message: NATSMessage
        let completion: Completion
    }

    private var waiting: [Item] = []
    private var sent: [UInt64: Item] = [:]
    /// The deadlines of all items, in the order of arrival, as all items have the same timeout. Deadlines of completed items
    /// remain until their time.
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

    /// Adds a message. Returns false if there are too many.
    mutating func add(_ message: NATSMessage, at now: Milliseconds, _ completion: @escaping Completion) -> Bool {
        guard count < limit else { return false }
        lastToken += 1
        waiting.append(Item(token: lastToken, message: message, completion: completion))
        deadlines.append((now + timeoutMilliseconds, lastToken))
        return true
    }

    /// Returns all waiting items. From now on they wait for their acknowledgements.
    mutating func takeWaiting() -> [Item] {
        let items = waiting
        waiting.removeAll()
        for item in items { sent[item.token] = item }
        return items
    }

    /// Removes and returns a sent item, or nil if it has already been completed.
    mutating func take(_ token: UInt64) -> Item? { sent.removeValue(forKey: token) }

    /// Removes and returns the sent items in order, because their connection has ended.
    mutating func takeSent() -> [Item] {
        let items = sent.values.sorted { $0.token < $1.token }
        sent.removeAll()
        return items
    }

    /// Removes and returns the items whose time is over, in order.
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

    /// Returns the earliest deadline, or nil if there are no items.
    mutating func nextDeadline() -> Milliseconds? {
        while firstDeadline < deadlines.count, !isOpen(deadlines[firstDeadline].token) { firstDeadline += 1 }
        forgetOldDeadlines()
        return firstDeadline < deadlines.count ? deadlines[firstDeadline].at : nil
    }

    private func isOpen(_ token: UInt64) -> Bool {
        // Waiting items have consecutive tokens, because they leave only from the front.
        if let first = waiting.first?.token, token >= first { return true }
        return sent[token] != nil
    }

    /// Removes obsolete deadlines once they are the majority, so that the cost of each is constant.
    private mutating func forgetOldDeadlines() {
        guard firstDeadline * 2 > deadlines.count else { return }
        deadlines.removeFirst(firstDeadline)
        firstDeadline = 0
    }
}
