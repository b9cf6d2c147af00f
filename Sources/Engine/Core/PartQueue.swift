import Runtime

/// Reads of parts of namespaces that are being loaded. Bounded by number, and of one namespace, too: what finds no room waits for the
/// load, as all of them do anyway. Any thread.
final class PartQueue: Sendable {
    struct Item: Sendable {
        let read: PartRead
        let name: String
        let namespace: Int64
    }

    private struct State: Sendable {
        /// A ring.
        var items: [Item?] = []
        var first = 0
        var count = 0
        /// How many of each namespace wait.
        var ofNamespace: [Int64: Int] = [:]
        var isStopped = false

        mutating func take() -> Item? {
            guard count > 0, let item = items[first] else { return nil }
            items[first] = nil
            first = (first + 1) % items.count
            count -= 1
            let left = (ofNamespace[item.namespace] ?? 1) - 1
            ofNamespace[item.namespace] = left == 0 ? nil : left
            return item
        }
    }

    private let state = Condition(State())
    static let most = 1_000
    static let mostOfOne = 250

    func add(_ item: Item) {
        state.signal { state in
            let ofOne = state.ofNamespace[item.namespace] ?? 0
            guard !state.isStopped, state.count < Self.most, ofOne < Self.mostOfOne else { return }
            if state.items.isEmpty { state.items = Array(repeating: nil, count: Self.most) }
            state.items[(state.first + state.count) % Self.most] = item
            state.count += 1
            state.ofNamespace[item.namespace] = ofOne + 1
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
            return state.take().map { .item($0) }
        } ?? .nothing
    }

    /// Forgets those that wait here: they have the load.
    func clear() {
        let items = state.withLock { state in
            defer { state = State(isStopped: state.isStopped) }
            return state.items
        }
        withExtendedLifetime(items) {}
    }

    func stop() { state.broadcast { $0.isStopped = true } }
}
