/// Passes items from one thread to another, in order. The producer waits while `capacity` items are queued.
public final class BoundedQueue<Item: Sendable>: Sendable {
    private struct State {
        var items: [Item] = []
        var isEnded = false
        var failure: (any Error)?
        var isLeft = false
    }

    private let state = Condition(State())
    private let capacity: Int

    /// - Parameter capacity: maximum number of waiting items.
    public init(capacity: Int) { self.capacity = max(1, capacity) }

    /// Adds an item, waiting until the queue is no longer full. Returns false if the consumer has left; then the item
    /// is dropped.
    public func put(_ item: Item) -> Bool {
        let isWanted =
            state.wait { [capacity] state -> Bool? in
                if state.isLeft { return false }
                return state.items.count < capacity ? true : nil
            } ?? false
        return isWanted
            && state.broadcast { state in
                guard !state.isLeft else { return false }
                state.items.append(item)
                return true
            }
    }

    /// Ends the queue, with a failure if there is one. Only the first call counts.
    public func end(_ failure: (any Error)? = nil) {
        state.broadcast { state in
            guard !state.isEnded else { return }
            state.isEnded = true
            state.failure = failure
        }
    }

    /// Waits for the next item and returns it; returns nil at the end.
    ///
    /// - Throws: the failure passed to `end`, after all items that were added before.
    public func next() throws -> Item? {
        let taken = state.wait { state -> Result<Item?, any Error>? in
            if !state.items.isEmpty { return .success(state.items.removeFirst()) }
            guard state.isEnded else { return nil }
            return state.failure.map { .failure($0) } ?? .success(nil)
        }
        // Wakes a producer that waits for a free slot.
        state.broadcast { _ in }
        return try taken?.get() ?? nil
    }

    /// Whether the consumer has left.
    public var isLeft: Bool { state.withLock { $0.isLeft } }

    /// Ends the consumer's side: from now on, `put` returns false.
    public func leave() {
        state.broadcast { state in
            state.isLeft = true
            state.items = []
        }
    }
}
