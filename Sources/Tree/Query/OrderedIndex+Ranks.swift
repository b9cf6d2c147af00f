/// Places in the order, counted from 0. Each is found in O(log n).
extension OrderedIndex {
    /// Which places the query, which must be by this index, selects.
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

    /// The place of one of the branch's children, of which this is the value.
    public func rank(of key: Key, _ child: Node) -> Int {
        let value = Query(index: index).indexValue(of: child).withoutPriority
        let element = Element(value: value, key: key)
        return partitionPoint { $0.order(against: element) >= 0 }
    }

    /// The child at a place, which must be there.
    public func key(at rank: Int) -> Key { self[rank].key }
}
