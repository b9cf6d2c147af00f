extension ChildMap: Sequence {
    /// Walks the children in key order, from the first child or from a given key.
    public struct Iterator: IteratorProtocol {
        private var stack: [(slab: Inner, next: Int)] = []
        private var entries: ContiguousArray<Entry> = []
        private var index = 0

        init(_ slab: Slab) { descend(slab) }

        /// Starts at the first key that is not before `key`.
        init(_ slab: Slab, from key: Key) {
            var slab = slab
            while true {
                switch slab {
                case .inner(let inner):
                    let slot = inner.slot(of: key)
                    stack.append((inner, slot + 1))
                    slab = inner.slabs[slot]
                case .paged(let paged): slab = paged.slab(for: .walk)
                case .entries(let found):
                    entries = found
                    index = found.position(of: key).index
                    return
                }
            }
        }

        private mutating func descend(_ slab: Slab) {
            var slab = slab
            while true {
                switch slab {
                case .inner(let inner):
                    stack.append((inner, 1))
                    slab = inner.slabs[0]
                case .paged(let paged): slab = paged.slab(for: .walk)
                case .entries(let found):
                    entries = found
                    index = 0
                    return
                }
            }
        }

        public mutating func next() -> Entry? {
            while index >= entries.count {
                guard let (inner, next) = stack.popLast() else { return nil }
                if next < inner.slabs.count {
                    stack.append((inner, next + 1))
                    descend(inner.slabs[next])
                }
            }
            defer { index += 1 }
            return entries[index]
        }
    }

    public func makeIterator() -> Iterator { Iterator(root) }

    public var underestimatedCount: Int { count }

    /// Returns the children whose keys are not before `key`, in order. O(log n) to start.
    public func entries(from key: Key) -> IteratorSequence<Iterator> {
        IteratorSequence(Iterator(root, from: key))
    }

    /// Visits all children in key order, without an iterator's bookkeeping.
    public func forEachEntry(_ body: (Entry) -> Void) { Self.walk(root, body) }

    private static func walk(_ slab: Slab, _ body: (Entry) -> Void) {
        switch slab {
        case .entries(let entries): for entry in entries { body(entry) }
        case .inner(let inner): for slab in inner.slabs { walk(slab, body) }
        case .paged(let paged): walk(paged.slab(for: .walk), body)
        }
    }

    /// Visits the children in descending key order until `body` returns false. Starts at the last child, or at the last one
    /// whose key is not after `key`. O(log n) to start.
    public func forEachReversed(from key: Key? = nil, _ body: (Entry) -> Bool) {
        _ = Self.walkReversed(root, key, body)
    }

    private static func walkReversed(_ slab: Slab, _ key: Key?, _ body: (Entry) -> Bool) -> Bool {
        switch slab {
        case .entries(let entries):
            var end = entries.count
            if let key {
                let (index, isFound) = entries.position(of: key)
                end = isFound ? index + 1 : index
            }
            for entry in entries[..<end].reversed() where !body(entry) { return false }
        case .inner(let inner):
            let last = key.map(inner.slot) ?? inner.slabs.count - 1
            for slot in (0...last).reversed() {
                // The key must be searched only in the slab that would contain it.
                guard walkReversed(inner.slabs[slot], slot == last ? key : nil, body) else { return false }
            }
        case .paged(let paged): return walkReversed(paged.slab(for: .walk), key, body)
        }
        return true
    }
}

extension ChildMap: Equatable {
    /// Skips slabs that both maps share.
    public static func == (left: ChildMap, right: ChildMap) -> Bool {
        left.count == right.count && areEqual(left.root, right.root)
    }

    private static func areEqual(_ left: Slab, _ right: Slab) -> Bool {
        if left.identity == right.identity { return true }
        if case .inner(let first) = left, case .inner(let second) = right,
            first.slabs.count == second.slabs.count,
            zip(first.slabs, second.slabs).allSatisfy({ $0.count == $1.count })
        {
            return zip(first.slabs, second.slabs).allSatisfy(areEqual)
        }
        var first = Iterator(left)
        var second = Iterator(right)
        while let one = first.next(), let other = second.next() {
            guard one.key == other.key, one.node == other.node else { return false }
        }
        return true
    }
}
