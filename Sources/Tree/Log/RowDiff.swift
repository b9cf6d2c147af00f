/// Receives the rows of storage that a change adds, rewrites and removes. A row is one leaf, or one priority at `…/.priority`.
public protocol RowSink {
    /// Receives a row with its path text. A null `old` means that the row is new, a null `new` that it is removed. They are
    /// never both null, and never equal.
    mutating func row(_ path: [UInt8], old: Node, new: Node)
}

/// Finds the rows in which two versions of a tree differ.
public struct RowDiff<Sink: RowSink> {
    public var sink: Sink
    private var path: [UInt8] = []

    public init(_ sink: Sink) { self.sink = sink }

    /// Finds the rows in which two trees differ. The second tree must have resulted from the first by one replacement at
    /// `changed`. Costs the depth of the path plus the sizes of the old and new values there; siblings are not visited.
    public mutating func compare(_ old: Node, _ new: Node, changedAt changed: Path) {
        let namesPriority = changed.namesPriority
        let depth = namesPriority ? changed.depth - 1 : changed.depth
        path.removeAll(keepingCapacity: true)
        var old = old
        var new = new
        for index in 0..<depth {
            if old.isIdentical(to: new) { return }
            own(old, new)
            let key = changed[index]
            append(key)
            old = old.child(key)
            new = new.child(key)
        }
        guard namesPriority else { return whole(old, new) }
        if !old.isIdentical(to: new) { own(old, new) }
    }

    /// Finds all differing rows at and below the current path.
    private mutating func whole(_ old: Node, _ new: Node) {
        if old.isIdentical(to: new) { return }
        own(old, new)
        switch (old, new) {
        case (.branch(let first), .branch(let second)): children(first.children, second.children)
        case (.branch(let first), _):
            for entry in first.children { descend(entry.key, entry.node, .null) }
        case (_, .branch(let second)):
            for entry in second.children { descend(entry.key, .null, entry.node) }
        default: break
        }
    }

    private mutating func children(_ old: ChildMap, _ new: ChildMap) {
        var first = old.makeIterator()
        var second = new.makeIterator()
        var one = first.next()
        var other = second.next()
        while one != nil || other != nil {
            let order =
                if let one, let other { one.key.order(against: other.key) } else { one == nil ? 1 : -1 }
            if order < 0, let entry = one {
                descend(entry.key, entry.node, .null)
                one = first.next()
            } else if order > 0, let entry = other {
                descend(entry.key, .null, entry.node)
                other = second.next()
            } else if let entry = one, let newer = other {
                descend(entry.key, entry.node, newer.node)
                one = first.next()
                other = second.next()
            }
        }
    }

    private mutating func descend(_ key: Key, _ old: Node, _ new: Node) {
        if old.isIdentical(to: new) { return }
        let length = path.count
        append(key)
        whole(old, new)
        path.removeLast(path.count - length)
    }

    private mutating func append(_ key: Key) {
        path.append(UInt8(ascii: "/"))
        path.append(contentsOf: key.text.utf8)
    }

    /// The path's text. A copy, because a sink that keeps a shared buffer would force `path` to be copied on its next change.
    private var rowPath: [UInt8] {
        path.isEmpty ? [UInt8(ascii: "/")] : path.withUnsafeBufferPointer { [UInt8]($0) }
    }

    /// Finds the differing rows of the current path itself: its leaf and its priority.
    private mutating func own(_ old: Node, _ new: Node) {
        let oldLeaf = old.isLeaf ? old.withoutPriority : .null
        let newLeaf = new.isLeaf ? new.withoutPriority : .null
        if oldLeaf != newLeaf { sink.row(rowPath, old: oldLeaf, new: newLeaf) }
        let oldPriority = old.priority
        let newPriority = new.priority
        if oldPriority != newPriority {
            sink.row(path + Array("/.priority".utf8), old: oldPriority, new: newPriority)
        }
    }
}
