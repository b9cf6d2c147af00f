import Runtime

/// Those who wait until a namespace has come to a seq. A value; its owner locks.
struct SeqWaiters: Sendable {
    /// Called when the seq is there.
    typealias Body = @Sendable () -> Void

    private struct Waiter: Sendable {
        let seq: Int64
        /// The monotonic millisecond after which nobody cares any more.
        let deadline: Milliseconds
        let body: Body
    }
    private var waiters: [Waiter] = []

    /// True when nobody waits.
    var isEmpty: Bool { waiters.isEmpty }

    /// Adds one, and forgets those that are due: a seq that never comes must cost no memory for ever.
    ///
    /// - Parameter now: monotonic milliseconds.
    mutating func add(_ seq: Int64, now: Milliseconds, deadline: Milliseconds, _ body: @escaping Body) {
        // All wait about as long, so the oldest is the first that is due.
        if let oldest = waiters.first, oldest.deadline <= now { waiters.removeAll { $0.deadline <= now } }
        waiters.append(Waiter(seq: seq, deadline: deadline, body: body))
    }

    /// Takes out those about whom nobody cares any more.
    mutating func takeDue(now: Milliseconds) -> [Body] {
        let due = waiters.filter { $0.deadline <= now }
        if !due.isEmpty { waiters.removeAll { $0.deadline <= now } }
        return due.map(\.body)
    }

    /// Takes out those whose seq is there, in the order in which they came.
    mutating func take(upTo seq: Int64) -> [Body] {
        guard !waiters.isEmpty else { return [] }
        let ready = waiters.filter { $0.seq <= seq }
        if !ready.isEmpty { waiters.removeAll { $0.seq <= seq } }
        return ready.map(\.body)
    }
}
