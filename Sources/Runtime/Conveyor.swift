/// Hands things from one thread to another, in order; who makes them waits while a few are there already.
public final class Conveyor<Item: Sendable>: Sendable {
    private struct State {
        var items: [Item] = []
        var isEnded = false
        var failure: (any Error)?
        var isLeft = false
    }

    private let state = Condition(State())
    private let capacity: Int

    /// - Parameter capacity: how many items may wait.
    public init(capacity: Int) { self.capacity = max(1, capacity) }

    /// Adds an item, once there is room. False where nobody takes any more; then the item is lost.
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

    /// Says that nothing more comes, because of a failure if there is one. Only the first time counts.
    public func end(_ failure: (any Error)? = nil) {
        state.broadcast { state in
            guard !state.isEnded else { return }
            state.isEnded = true
            state.failure = failure
        }
    }

    /// The next item; nil at the end. Waits for it.
    ///
    /// - Throws: the failure with which it ended, behind all items that came before.
    public func next() throws -> Item? {
        let taken = state.wait { state -> Result<Item?, any Error>? in
            if !state.items.isEmpty { return .success(state.items.removeFirst()) }
            guard state.isEnded else { return nil }
            return state.failure.map { .failure($0) } ?? .success(nil)
        }
        // There is room again.
        state.broadcast { _ in }
        return try taken?.get() ?? nil
    }

    /// Whether nobody takes anything any more.
    public var isLeft: Bool { state.withLock { $0.isLeft } }

    /// Takes nothing any more: whoever makes things hears so from `put`.
    public func leave() {
        state.broadcast { state in
            state.isLeft = true
            state.items = []
        }
    }
}
