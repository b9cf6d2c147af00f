public import Tree

/// The operations that a client has requested for its disconnection. Pure.
///
/// A later operation at a path replaces earlier ones at and below it, and is merged into an earlier operation that sets
/// a path above. A cancel removes a path again, also from within such an operation (reference: rtdb-protocol 9).
public struct DisconnectQueue: Sendable, Equatable {
    /// One operation, executed as one atomic write.
    public struct Operation: Sendable, Equatable {
        public internal(set) var changes: [Change]
    }

    /// The operations in the order of execution.
    public private(set) var operations: [Operation] = []

    public init() {}

    public init(_ operations: [[Change]]) {
        self.operations = operations.map { Operation(changes: $0) }
    }

    public var isEmpty: Bool { operations.isEmpty }

    /// The size of all operations as text, in bytes.
    public var byteCount: Int { operations.reduce(0) { $0 + ChangeCodec.encode($1.changes).count } }

    /// Adds a write of one value at a path.
    public mutating func put(_ path: Path, _ value: Node) { merge([Change(path: path, value: value)]) }

    /// - Parameter changes: their paths must not overlap.
    public mutating func merge(_ changes: [Change]) {
        guard let first = changes.first else { return }
        remove(atAndBelow: changes)
        let own = fold(changes, first)
        if !own.isEmpty { operations.append(Operation(changes: own)) }
        compact()
    }

    /// Cancels the operations at and below a path.
    public mutating func cancel(_ path: Path) {
        for index in operations.indices {
            var kept: [Change] = []
            for change in operations[index].changes {
                if path.contains(change.path) { continue }
                guard change.path.contains(path), change.value.isBranch else {
                    kept.append(change)
                    continue
                }
                kept.append(contentsOf: Self.split(change, without: path))
            }
            operations[index].changes = kept
        }
        compact()
    }

    /// Removes earlier operations at and below the changes' paths. Linear in both.
    private mutating func remove(atAndBelow changes: [Change]) {
        let isReplaced: (Change) -> Bool
        if changes.count == 1 {
            let path = changes[0].path
            isReplaced = { path.contains($0.path) }
        } else {
            let paths = Set(changes.lazy.map(\.path))
            isReplaced = { earlier in
                (0...earlier.path.depth).contains { paths.contains(Path(Array(earlier.path.keys.prefix($0)))) }
            }
        }
        // Unaffected operations are not copied.
        for index in operations.indices where operations[index].changes.contains(where: isReplaced) {
            operations[index].changes.removeAll(where: isReplaced)
        }
    }

    /// Merges values into earlier operations that set a path above them. Returns the changes without such an operation.
    private mutating func fold(_ changes: [Change], _ first: Change) -> [Change] {
        var positions: [Path: (operation: Int, change: Int)] = [:]
        for (operation, earlier) in operations.enumerated() {
            for (index, change) in earlier.changes.enumerated() where !change.path.namesPriority {
                // With one change, all other operations cannot be above it.
                if changes.count > 1 || change.path.contains(first.path) { positions[change.path] = (operation, index) }
            }
        }
        guard !positions.isEmpty else { return changes }
        return changes.filter { change in
            for depth in 0..<max(1, change.path.depth) {
                guard let position = positions[Path(Array(change.path.keys.prefix(depth)))] else { continue }
                let above = operations[position.operation].changes[position.change]
                let folded = above.value.replacing(change.path.relative(to: above.path), with: change.value)
                operations[position.operation].changes[position.change] = Change(path: above.path, value: folded)
                return false
            }
            return true
        }
    }

    /// Returns the children of a set path as separate changes, without the cancelled path.
    private static func split(_ change: Change, without path: Path) -> [Change] {
        // A leaf has no part that could be removed.
        guard case .branch(let branch) = change.value else { return [change] }
        var parts: [Change] = []
        for entry in branch.children {
            let child = Change(path: change.path.appending(entry.key), value: entry.node)
            if path.contains(child.path) { continue }
            parts.append(contentsOf: child.path.contains(path) ? split(child, without: path) : [child])
        }
        return parts
    }

    private mutating func compact() { operations.removeAll(where: \.changes.isEmpty) }
}
