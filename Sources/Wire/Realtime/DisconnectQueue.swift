public import Tree

/// What a client wants done when its connection ends. Pure.
///
/// A later order at a place replaces earlier ones at and below it, and is folded into one that already sets a place
/// above; a cancel takes a place out again, also from within such a one (reference: rtdb-protocol 9).
public struct DisconnectQueue: Sendable, Equatable {
    /// One order: done as one write, whole.
    public struct Order: Sendable, Equatable {
        public internal(set) var changes: [Change]
    }

    public private(set) var orders: [Order] = []

    public init() {}

    public init(_ orders: [[Change]]) {
        self.orders = orders.map { Order(changes: $0) }
    }

    public var isEmpty: Bool { orders.isEmpty }

    public mutating func put(_ path: Path, _ value: Node) {
        if !fold(path, value) { orders.append(Order(changes: [Change(path: path, value: value)])) }
        compact()
    }

    public mutating func merge(_ changes: [Change]) {
        var own: [Change] = []
        for change in changes where !fold(change.path, change.value) { own.append(change) }
        if !own.isEmpty { orders.append(Order(changes: own)) }
        compact()
    }

    public mutating func cancel(_ path: Path) {
        for index in orders.indices {
            var kept: [Change] = []
            for change in orders[index].changes {
                if path.contains(change.path) { continue }
                guard change.path.contains(path), change.value.isBranch else {
                    kept.append(change)
                    continue
                }
                kept.append(contentsOf: Self.split(change, without: path))
            }
            orders[index].changes = kept
        }
        compact()
    }

    /// Puts the value into an earlier order that sets a place above. Takes earlier orders at and below out.
    private mutating func fold(_ path: Path, _ value: Node) -> Bool {
        for index in orders.indices { orders[index].changes.removeAll { path.contains($0.path) } }
        for index in orders.indices {
            for place in orders[index].changes.indices {
                let change = orders[index].changes[place]
                guard change.path.contains(path), !change.path.namesPriority else { continue }
                let folded = change.value.replacing(path.relative(to: change.path), with: value)
                orders[index].changes[place] = Change(path: change.path, value: folded)
                return true
            }
        }
        return false
    }

    /// The children of a set place as changes of their own, but for the one that is cancelled.
    private static func split(_ change: Change, without path: Path) -> [Change] {
        // A leaf has no part that could be taken out.
        guard case .branch(let branch) = change.value else { return [change] }
        var parts: [Change] = []
        for entry in branch.children {
            let child = Change(path: change.path.appending(entry.key), value: entry.node)
            if path.contains(child.path) { continue }
            parts.append(contentsOf: child.path.contains(path) ? split(child, without: path) : [child])
        }
        return parts
    }

    private mutating func compact() { orders.removeAll(where: \.changes.isEmpty) }
}
