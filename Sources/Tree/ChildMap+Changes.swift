/// Sets several children at once. Each slab on the path is copied once, however many of the children it contains.
extension ChildMap {
    /// Returns the map with these children replaced or added.
    ///
    /// - Parameter entries: ordered by their keys, each key once, none of them null.
    func replacing(_ entries: ArraySlice<Entry>) -> ChildMap {
        guard entries.count > 1 else {
            guard let only = entries.first else { return self }
            return replacing(only.key, with: only.node)
        }
        var slabs = root.setting(entries, isRightEdge: true).slabs
        while slabs.count > Self.width { slabs = ChildMap.Inner.above(slabs, isFull: false) }
        return slabs.count == 1 ? ChildMap(root: slabs[0]) : ChildMap(root: .inner(Inner(slabs)))
    }
}

extension ChildMap.Slab {
    /// The result of several changes of a slab, and their effect on the sums above.
    struct Settings {
        /// The slab, followed by the slabs to its right with the entries that did not fit.
        let slabs: ContiguousArray<ChildMap.Slab>
        let count: Int
        let rowCount: Int
    }

    /// - Parameters:
    ///   - entries: not empty, ordered by their keys.
    ///   - isRightEdge: see `setting(_:isRightEdge:)` for one entry.
    func setting(_ entries: ArraySlice<ChildMap.Entry>, isRightEdge: Bool) -> Settings {
        switch self {
        case .entries(let old): Self.merged(old, entries, isRightEdge: isRightEdge)
        case .inner(let inner): inner.setting(entries, isRightEdge: isRightEdge)
        case .paged(let paged): paged.slab(for: .change).setting(entries, isRightEdge: isRightEdge)
        }
    }

    private static func merged(
        _ old: ContiguousArray<ChildMap.Entry>, _ new: ArraySlice<ChildMap.Entry>, isRightEdge: Bool
    ) -> Settings {
        var replaced = old
        var rows = 0
        var missing = 0
        for entry in new {
            let (index, isFound) = old.position(of: entry.key)
            rows += entry.node.rowCount - (isFound ? old[index].node.rowCount : 0)
            if isFound { replaced[index] = entry } else { missing += 1 }
        }
        if missing == 0 { return Settings(slabs: [.entries(replaced)], count: 0, rowCount: rows) }
        var all = ContiguousArray<ChildMap.Entry>()
        all.reserveCapacity(old.count + missing)
        var next = 0
        for entry in new {
            let (index, isFound) = old.position(of: entry.key)
            if isFound { continue }
            all.append(contentsOf: replaced[next..<index])
            all.append(entry)
            next = index
        }
        // Ascending keys at the right edge fill slabs completely, as they do when set one by one.
        let isAppended = isRightEdge && all.count == old.count + missing
        all.append(contentsOf: replaced[next...])
        guard all.count > ChildMap.width else {
            return Settings(slabs: [.entries(all)], count: missing, rowCount: rows)
        }
        let slabs = parts(all.count, isFull: isAppended).map { ChildMap.Slab.entries(ContiguousArray(all[$0])) }
        return Settings(slabs: ContiguousArray(slabs), count: missing, rowCount: rows)
    }
}

extension ChildMap.Inner {
    fileprivate func setting(_ entries: ArraySlice<ChildMap.Entry>, isRightEdge: Bool) -> ChildMap.Slab.Settings {
        var changed = ContiguousArray<ChildMap.Slab>()
        changed.reserveCapacity(slabs.count + 1)
        var lows = ContiguousArray<Key>()
        lows.reserveCapacity(slabs.count + 1)
        var left = entries
        var next = 0
        var counts = (entries: 0, rows: 0)
        var isSplitAtRight = false
        while let first = left.first {
            let slot = slot(of: first.key)
            let end =
                slot + 1 < lowKeys.count
                ? left.firstIndex { $0.key.order(against: lowKeys[slot + 1]) >= 0 } ?? left.endIndex : left.endIndex
            let isLast = isRightEdge && slot + 1 == slabs.count
            let below = slabs[slot].setting(left[..<end], isRightEdge: isLast)
            changed.append(contentsOf: slabs[next..<slot])
            lows.append(contentsOf: lowKeys[next..<slot])
            changed.append(contentsOf: below.slabs)
            lows.append(min(first.key, lowKeys[slot]))
            lows.append(contentsOf: below.slabs.dropFirst().map(\.lowKey))
            isSplitAtRight = isLast && below.slabs.count > 1
            counts.entries += below.count
            counts.rows += below.rowCount
            next = slot + 1
            left = left[end...]
        }
        changed.append(contentsOf: slabs[next...])
        lows.append(contentsOf: lowKeys[next...])
        guard changed.count > ChildMap.width else {
            let inner = ChildMap.Inner(changed, lows, from: self, count: counts.entries, rowCount: counts.rows)
            return .init(slabs: [.inner(inner)], count: counts.entries, rowCount: counts.rows)
        }
        return .init(
            slabs: Self.above(changed, isFull: isSplitAtRight), count: counts.entries, rowCount: counts.rows)
    }

    /// Returns the level above slabs that are too many for one.
    static func above(
        _ slabs: ContiguousArray<ChildMap.Slab>, isFull: Bool
    ) -> ContiguousArray<ChildMap.Slab> {
        let parts = ChildMap.Slab.parts(slabs.count, isFull: isFull)
        return ContiguousArray(parts.map { .inner(ChildMap.Inner(ContiguousArray(slabs[$0]))) })
    }
}
