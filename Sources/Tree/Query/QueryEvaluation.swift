extension Query {
    /// Returns the part of `node` that the query selects: its matching children, without the node's own priority. A leaf has no
    /// children, so nothing is selected.
    ///
    /// By key: O(log n + matches). Other orders: one pass over the children, and a heap of at most `limit` children.
    public func select(from node: Node) -> Node {
        guard case .branch(let branch) = node else { return .null }
        if selectsAll { return node.withoutPriority }
        var selected = index == .key ? selectByKey(branch.children) : selectByValue(branch.children)
        guard !selected.isEmpty else { return .null }
        ChildMap.normalize(&selected)
        return .branch(Branch(priority: .null, children: ChildMap(sorted: selected)))
    }

    /// Whether the query would select the child if it had no limit.
    public func admits(_ key: Key, _ child: Node) -> Bool {
        let value = indexValue(of: child)
        return isAfterStart(value, key) && isBeforeEnd(value, key)
    }

    // MARK: By key

    private func selectByKey(_ children: ChildMap) -> ContiguousArray<ChildMap.Entry> {
        var selected = ContiguousArray<ChildMap.Entry>()
        if case .last(let count) = limit {
            // A bound below all keys admits none, and there is no key to start from.
            guard count > 0, end?.keyText.map({ Key($0).sentinelOrder }) != -1 else { return [] }
            children.forEachReversed(from: Self.key(of: end)) { entry in
                guard isAfterStart(.null, entry.key) else { return false }
                if isBeforeEnd(.null, entry.key) { selected.append(entry) }
                return selected.count < count
            }
            return selected
        }
        let most = if case .first(let count) = limit { count } else { Int.max }
        if let start, start.keyText.map({ Key($0).sentinelOrder }) == 1 { return [] }
        guard let from = Self.key(of: start) ?? children.first?.key else { return [] }
        for entry in children.entries(from: from) {
            guard isBeforeEnd(.null, entry.key), selected.count < most else { break }
            if isAfterStart(.null, entry.key) { selected.append(entry) }
        }
        return selected
    }

    /// Returns the key of a bound, or nil for a sentinel, which has no position among the keys.
    private static func key(of bound: Bound?) -> Key? {
        guard let key = bound?.keyText.map(Key.init), key.sentinelOrder == 0 else { return nil }
        return key
    }

    // MARK: By value

    private struct Ranked {
        let value: Node
        let entry: ChildMap.Entry

        func order(against other: Ranked) -> Int {
            let order = ValueOrder.compare(value, other.value)
            return order == 0 ? entry.key.order(against: other.entry.key) : order
        }
    }

    private func selectByValue(_ children: ChildMap) -> ContiguousArray<ChildMap.Entry> {
        guard let limit else {
            return ContiguousArray(children.lazy.filter { admits($0.key, $0.node) })
        }
        let count: Int
        // The top of the heap is the entry that the next better one replaces.
        let direction: Int
        switch limit {
        case .first(let first): (count, direction) = (first, 1)
        case .last(let last): (count, direction) = (last, -1)
        }
        var heap: [Ranked] = []
        for entry in children {
            let ranked = Ranked(value: indexValue(of: entry.node), entry: entry)
            guard isAfterStart(ranked.value, entry.key), isBeforeEnd(ranked.value, entry.key) else { continue }
            if heap.count < count {
                heap.append(ranked)
                Self.siftUp(&heap, direction)
            } else if let top = heap.first, ranked.order(against: top) * direction < 0 {
                heap[0] = ranked
                Self.siftDown(&heap, direction)
            }
        }
        return ContiguousArray(heap.map(\.entry))
    }

    private static func siftUp(_ heap: inout [Ranked], _ direction: Int) {
        var index = heap.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            guard heap[index].order(against: heap[parent]) * direction > 0 else { return }
            heap.swapAt(index, parent)
            index = parent
        }
    }

    private static func siftDown(_ heap: inout [Ranked], _ direction: Int) {
        var index = 0
        while true {
            var largest = index
            for child in [index * 2 + 1, index * 2 + 2] where child < heap.count {
                if heap[child].order(against: heap[largest]) * direction > 0 { largest = child }
            }
            guard largest != index else { return }
            heap.swapAt(index, largest)
            index = largest
        }
    }

    // MARK: Bounds

    func isAfterStart(_ value: Node, _ key: Key) -> Bool {
        guard let start else { return true }
        let order = order(value, key, against: start, withoutKey: start.isInclusive ? 1 : -1)
        return order > 0 || (order == 0 && start.isInclusive)
    }

    func isBeforeEnd(_ value: Node, _ key: Key) -> Bool {
        guard let end else { return true }
        let order = order(value, key, against: end, withoutKey: end.isInclusive ? -1 : 1)
        return order < 0 || (order == 0 && end.isInclusive)
    }

    /// Returns the order of (value, key) relative to the bound. `withoutKey` decides ties of the value if the bound names no
    /// key.
    private func order(_ value: Node, _ key: Key, against bound: Bound, withoutKey: Int) -> Int {
        if index == .key {
            guard let text = bound.keyText else { return withoutKey }
            return key.order(againstBound: Key(text))
        }
        let order = ValueOrder.compare(value, bound.value.node)
        if order != 0 { return order }
        guard let boundKey = bound.key else { return withoutKey }
        return key.order(againstBound: boundKey)
    }
}

extension Query.Bound {
    /// The text of a key bound.
    var keyText: String? {
        if case .string(let text) = value.node { text } else { nil }
    }
}

extension Key {
    /// Whether the key stands for a position before or after all keys in a query's bound. SDKs name these positions
    /// `[MIN_NAME]` and `[MAX_NAME]`, because keys can't contain brackets.
    public var isBoundSentinel: Bool { sentinelOrder != 0 }

    /// −1 for `[MIN_NAME]` and `[MIN_KEY]`, which sort below every key, 1 for `[MAX_NAME]` and `[MAX_KEY]`, which sort above
    /// every key, otherwise 0.
    var sentinelOrder: Int {
        // Compares bytes, because string equality treats a Kelvin sign as a K.
        guard text.utf8.first == UInt8(ascii: "[") else { return 0 }
        if text.hasSameBytes(as: "[MIN_NAME]") || text.hasSameBytes(as: "[MIN_KEY]") { return -1 }
        return text.hasSameBytes(as: "[MAX_NAME]") || text.hasSameBytes(as: "[MAX_KEY]") ? 1 : 0
    }

    func order(againstBound bound: Key) -> Int {
        bound.sentinelOrder == 0 ? order(against: bound) : -bound.sentinelOrder
    }
}
