extension Node {
    /// The tree after an entry's changes, one after another, as `replacing(_:with:)` does each.
    ///
    /// Many values that follow one another are put in together: what is above several of them is copied once, and not for each.
    ///
    /// - Parameter changes: in the order in which they are applied.
    public func replacing(_ changes: [Change]) -> Node {
        guard changes.count >= Self.leastTogether else { return replacing(changes[...]) }
        // Only values: what a removal leaves behind depends on what is there when its turn comes, and so does a priority.
        let values = changes.prefix { $0.step == .values }
        guard values.count >= Self.leastTogether, let together = replacing(together: values) else {
            return replacing(changes[...])
        }
        return together.replacing(changes[values.count...])
    }

    /// Fewer have next to nothing in common where they are anywhere in a large tree, and bringing them in order is not free: ten
    /// took as long either way, a hundred less.
    static let leastTogether = 16

    private func replacing(_ changes: ArraySlice<Change>) -> Node {
        changes.reduce(self) { $0.replacing($1.path, with: $1.value) }
    }

    /// Nil where one place lies at or below another, so that their order matters. An entry has no such places.
    private func replacing(together values: ArraySlice<Change>) -> Node? {
        let sorted = values.sorted { $0.path.comesBefore($1.path) }
        let areApart = zip(sorted, sorted.dropFirst()).allSatisfy { !$0.path.contains($1.path) }
        return areApart ? replacing(sorted[...], below: 0) : nil
    }

    /// - Parameters:
    ///   - changes: values, in the order of their paths.
    ///   - depth: how many keys lead here.
    private func replacing(_ changes: ArraySlice<Change>, below depth: Int) -> Node {
        guard changes.count > 1 else {
            return changes.reduce(self) { $0.replacing($1.path.dropFirst(depth), with: $1.value) }
        }
        let children = if case .branch(let branch) = self { branch.children } else { ChildMap(sorted: []) }
        var entries: [ChildMap.Entry] = []
        var left = changes
        while let key = left.first?.path[depth] {
            let end = left.firstIndex { $0.path[depth] != key } ?? left.endIndex
            let old = children[key] ?? .null
            let new = old.replacing(left[..<end], below: depth + 1)
            if !new.isIdentical(to: old) { entries.append(.init(key: key, node: new)) }
            left = left[end...]
        }
        if entries.isEmpty { return self }
        return .branch(Branch(priority: priority, children: children.replacing(entries[...])))
    }
}

extension Path {
    /// Key by key, a path before those below it.
    fileprivate func comesBefore(_ other: Path) -> Bool {
        for (one, other) in zip(keys, other.keys) {
            let order = one.order(against: other)
            if order != 0 { return order < 0 }
        }
        return depth < other.depth
    }
}
