import Runtime

/// Reads of parts of namespaces that are being loaded. Bounded by number: what finds no room waits for the load, as all of them do
/// anyway. Any thread.
final class PartQueue: Sendable {
    struct Item: Sendable {
        let read: PartRead
        let name: String
        let namespace: Int64
    }

    private struct State: Sendable {
        var items: [Item] = []
        var next = 0
        var isStopped = false
    }

    private let state = Condition(State())
    private static let most = 1_000

    func add(_ item: Item) {
        state.signal { state in
            guard !state.isStopped, state.items.count - state.next < Self.most else { return }
            state.items.append(item)
        }
    }

    enum Next {
        case item(Item)
        case nothing
        case stop
    }

    /// The next one; `nothing` after so long.
    func next(milliseconds: Milliseconds?) -> Next {
        state.wait(milliseconds: milliseconds) { state -> Next? in
            if state.isStopped { return .stop }
            guard state.next < state.items.count else { return nil }
            defer {
                state.next += 1
                if state.next == state.items.count {
                    state.items = []
                    state.next = 0
                }
            }
            return .item(state.items[state.next])
        } ?? .nothing
    }

    /// Forgets those that wait here: they have the load.
    func clear() {
        let items = state.withLock { state in
            defer {
                state.items = []
                state.next = 0
            }
            return state.items
        }
        withExtendedLifetime(items) {}
    }

    func stop() { state.broadcast { $0.isStopped = true } }
}
