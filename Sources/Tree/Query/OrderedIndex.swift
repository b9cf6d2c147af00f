/// The children of a branch ordered by an index value: a persistent B+tree beside the one in key order.
///
/// Built once, in O(n log n). An update to a newer version of the branch costs about as much as the versions differ, because
/// they share everything else.
public struct OrderedIndex: Sendable {
    struct Element: Sendable {
        let value: Node
        let key: Key

        func order(against other: Element) -> Int {
            let order = ValueOrder.compare(value, other.value)
            return order == 0 ? key.order(against: other.key) : order
        }
    }

    private static let width = 64

    private enum Slab: Sendable {
        case leaf(ContiguousArray<Element>)
        case inner(Inner)

        var count: Int {
            switch self {
            case .leaf(let elements): elements.count
            case .inner(let inner): inner.count
            }
        }

        /// The lowest element. Slabs within the tree are never empty.
        var low: Element {
            switch self {
            case .leaf(let elements): elements[0]
            case .inner(let inner): inner.lows[0]
            }
        }
    }

    private final class Inner: Sendable {
        let slabs: ContiguousArray<Slab>
        let lows: ContiguousArray<Element>
        let count: Int

        init(_ slabs: ContiguousArray<Slab>) {
            self.slabs = slabs
            lows = ContiguousArray(slabs.map(\.low))
            count = slabs.reduce(0) { $0 + $1.count }
        }

        /// Returns the index of the slab that contains the element or would contain it.
        func slot(of element: Element) -> Int {
            var low = 0
            var high = lows.count
            while low < high {
                let middle = (low + high) / 2
                if lows[middle].order(against: element) <= 0 { low = middle + 1 } else { high = middle }
            }
            return low == 0 ? 0 : low - 1
        }
    }

    let branch: Branch
    let index: Query.Index
    private var root: Slab

    /// Creates the index of a branch's children.
    public init(_ branch: Branch, by index: Query.Index) {
        self.branch = branch
        self.index = index
        let query = Query(index: index)
        var elements = ContiguousArray<Element>()
        elements.reserveCapacity(branch.children.count)
        branch.children.forEachEntry {
            elements.append(Element(value: query.indexValue(of: $0.node).withoutPriority, key: $0.key))
        }
        elements.sort { $0.order(against: $1) < 0 }
        root = Self.build(elements)
    }

    private init(_ branch: Branch, _ index: Query.Index, _ root: Slab) {
        self.branch = branch
        self.index = index
        self.root = root
    }

    /// Returns the index of a newer version of the branch.
    public func updated(to newer: Branch) -> OrderedIndex {
        if newer === branch { return self }
        let query = Query(index: index)
        var root = root
        newer.children.forEachDifference(from: branch.children) { old, new in
            guard let key = (old ?? new)?.key else { return }
            Self.replace(old?.node, new?.node, at: key, in: &root, query)
        }
        return OrderedIndex(newer, index, root)
    }

    /// Returns the index of a newer version of the branch that differs only in these children. O(log n) for each child.
    public func updated(to newer: Branch, changing keys: [Key]) -> OrderedIndex {
        if newer === branch { return self }
        let query = Query(index: index)
        var root = root
        for key in keys { Self.replace(branch.children[key], newer.children[key], at: key, in: &root, query) }
        return OrderedIndex(newer, index, root)
    }

    private static func replace(_ old: Node?, _ new: Node?, at key: Key, in root: inout Slab, _ query: Query) {
        let before = old.map { Element(value: query.indexValue(of: $0).withoutPriority, key: key) }
        let after = new.map { Element(value: query.indexValue(of: $0).withoutPriority, key: key) }
        if let before, let after, before.order(against: after) == 0 { return }
        if let before { root = removing(before, from: root) ?? .leaf([]) }
        if let after { root = inserting(after, into: root) }
    }

    /// The number of children in the index.
    public var count: Int { root.count }

    /// Returns the children that the query selects. The query must be by this index. O(log n + selected children).
    public func select(_ query: Query) -> Node {
        let range = ranks(of: query)
        if range.isEmpty { return .null }
        var entries = ContiguousArray<ChildMap.Entry>()
        entries.reserveCapacity(range.count)
        for rank in range {
            let key = self[rank].key
            if let node = branch.children[key] { entries.append(.init(key: key, node: node)) }
        }
        return Node(sorting: &entries, priority: .null)
    }

    // MARK: Reading

    /// Returns the number of elements before the first one for which `isAfter` is true. It must be true for all later
    /// elements.
    func partitionPoint(_ isAfter: (Element) -> Bool) -> Int {
        var slab = root
        var rank = 0
        while true {
            switch slab {
            case .leaf(let elements):
                var low = 0
                var high = elements.count
                while low < high {
                    let middle = (low + high) / 2
                    if isAfter(elements[middle]) { high = middle } else { low = middle + 1 }
                }
                return rank + low
            case .inner(let inner):
                var low = 0
                var high = inner.lows.count
                while low < high {
                    let middle = (low + high) / 2
                    if isAfter(inner.lows[middle]) { high = middle } else { low = middle + 1 }
                }
                guard low > 0 else { return rank }
                for slot in 0..<(low - 1) { rank += inner.slabs[slot].count }
                slab = inner.slabs[low - 1]
            }
        }
    }

    subscript(rank: Int) -> Element {
        var slab = root
        var rank = rank
        while true {
            switch slab {
            case .leaf(let elements): return elements[rank]
            case .inner(let inner):
                var slot = 0
                while rank >= inner.slabs[slot].count {
                    rank -= inner.slabs[slot].count
                    slot += 1
                }
                slab = inner.slabs[slot]
            }
        }
    }

    // MARK: Changing

    private static func build(_ elements: ContiguousArray<Element>) -> Slab {
        if elements.count <= width { return .leaf(elements) }
        var level = ContiguousArray<Slab>()
        for part in parts(elements.count) { level.append(.leaf(ContiguousArray(elements[part]))) }
        while level.count > width {
            var above = ContiguousArray<Slab>()
            for part in parts(level.count) { above.append(.inner(Inner(ContiguousArray(level[part])))) }
            level = above
        }
        return .inner(Inner(level))
    }

    private static func parts(_ count: Int) -> [Range<Int>] {
        let number = (count + width * 3 / 4 - 1) / (width * 3 / 4)
        return (0..<number).map { count * $0 / number..<count * ($0 + 1) / number }
    }

    private static func position(_ element: Element, in elements: ContiguousArray<Element>) -> (
        index: Int, isFound: Bool
    ) {
        var low = 0
        var high = elements.count
        while low < high {
            let middle = (low + high) / 2
            let order = elements[middle].order(against: element)
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return (low, false)
    }

    private static func inserting(_ element: Element, into root: Slab) -> Slab {
        let (slab, split) = setting(element, in: root)
        return split.map { .inner(Inner([slab, $0])) } ?? slab
    }

    private static func setting(_ element: Element, in slab: Slab) -> (Slab, split: Slab?) {
        switch slab {
        case .leaf(var elements):
            let (index, isFound) = position(element, in: elements)
            if isFound { return (slab, nil) }
            elements.insert(element, at: index)
            guard elements.count > width else { return (.leaf(elements), nil) }
            let half = elements.count / 2
            return (.leaf(ContiguousArray(elements[..<half])), .leaf(ContiguousArray(elements[half...])))
        case .inner(let inner):
            let slot = inner.slot(of: element)
            let (changed, split) = setting(element, in: inner.slabs[slot])
            var slabs = inner.slabs
            slabs[slot] = changed
            if let split { slabs.insert(split, at: slot + 1) }
            guard slabs.count > width else { return (.inner(Inner(slabs)), nil) }
            let half = slabs.count / 2
            return (.inner(Inner(ContiguousArray(slabs[..<half]))), .inner(Inner(ContiguousArray(slabs[half...]))))
        }
    }

    /// Returns nil if the slab is then empty.
    private static func removing(_ element: Element, from slab: Slab) -> Slab? {
        switch slab {
        case .leaf(var elements):
            let (index, isFound) = position(element, in: elements)
            guard isFound else { return slab }
            if elements.count == 1 { return nil }
            elements.remove(at: index)
            return .leaf(elements)
        case .inner(let inner):
            let slot = inner.slot(of: element)
            var slabs = inner.slabs
            if let changed = removing(element, from: inner.slabs[slot]) {
                slabs[slot] = changed
            } else {
                slabs.remove(at: slot)
            }
            if slabs.isEmpty { return nil }
            return slabs.count == 1 ? slabs[0] : .inner(Inner(slabs))
        }
    }
}

/// Positions in the order, counted from 0. Each is found in O(log n).
extension OrderedIndex {
    /// Returns the positions that the query selects. The query must be by this index.
    public func ranks(of query: Query) -> Range<Int> {
        let first = partitionPoint { query.isAfterStart($0.value, $0.key) }
        let end = partitionPoint { !query.isBeforeEnd($0.value, $0.key) }
        guard first < end else { return first..<first }
        switch query.limit {
        case nil: return first..<end
        case .first(let count): return first..<min(end, first + max(0, count))
        case .last(let count): return max(first, end - max(0, count))..<end
        }
    }

    /// Returns the position of one of the branch's children, which has this value.
    public func rank(of key: Key, _ child: Node) -> Int {
        let value = Query(index: index).indexValue(of: child).withoutPriority
        let element = Element(value: value, key: key)
        return partitionPoint { $0.order(against: element) >= 0 }
    }

    /// Returns the key of the child at a position, which must exist.
    public func key(at rank: Int) -> Key { self[rank].key }
}
