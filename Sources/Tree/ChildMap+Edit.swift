/// Changes of one slab of the B+tree. Each returns a changed copy and leaves the old slab unchanged.
extension ChildMap.Slab {
    /// A slab after a change below it, and the change's effect on the sums above.
    struct Setting {
        let slab: ChildMap.Slab
        /// The next slab to the right, with the entries that did not fit.
        var split: ChildMap.Slab?
        let count: Int
        let rowCount: Int
    }

    /// - Parameter isRightEdge: whether no slab is to the right of this one. Ascending keys (push ids) then fill slabs
    ///   completely instead of leaving halves.
    func setting(_ entry: ChildMap.Entry, isRightEdge: Bool) -> Setting {
        switch self {
        case .paged(let paged): return paged.slab(for: .change).setting(entry, isRightEdge: isRightEdge)
        case .entries(var entries):
            let (index, isFound) = entries.position(of: entry.key)
            if isFound {
                let rows = entry.node.rowCount - entries[index].node.rowCount
                entries[index] = entry
                return Setting(slab: .entries(entries), count: 0, rowCount: rows)
            }
            let rows = entry.node.rowCount
            if entries.count < ChildMap.width {
                return Setting(slab: .entries(entries.inserting(entry, at: index)), count: 1, rowCount: rows)
            }
            if isRightEdge, index == entries.count {
                return Setting(slab: self, split: .entries([entry]), count: 1, rowCount: rows)
            }
            let grown = entries.inserting(entry, at: index)
            let half = grown.count / 2
            return Setting(
                slab: .entries(ContiguousArray(grown[..<half])), split: .entries(ContiguousArray(grown[half...])),
                count: 1, rowCount: rows)
        case .inner(let inner):
            let slot = inner.slot(of: entry.key)
            let isLast = isRightEdge && slot + 1 == inner.slabs.count
            let below = inner.slabs[slot].setting(entry, isRightEdge: isLast)
            var slabs = inner.slabs
            slabs[slot] = below.slab
            var lowKeys = inner.lowKeys
            if entry.key < lowKeys[slot] { lowKeys[slot] = entry.key }
            if let split = below.split {
                slabs.insert(split, at: slot + 1)
                lowKeys.insert(split.lowKey, at: slot + 1)
            }
            guard slabs.count > ChildMap.width else {
                let slab = ChildMap.Inner(slabs, lowKeys, from: inner, count: below.count, rowCount: below.rowCount)
                return Setting(slab: .inner(slab), count: below.count, rowCount: below.rowCount)
            }
            let half = isLast ? slabs.count - 1 : slabs.count / 2
            let left = ChildMap.Inner(ContiguousArray(slabs[..<half]))
            let right = ChildMap.Inner(ContiguousArray(slabs[half...]))
            return Setting(slab: .inner(left), split: .inner(right), count: below.count, rowCount: below.rowCount)
        }
    }

    /// Returns the slab without the key (nil if it is then empty) and the number of removed rows. Returns nil if the key is
    /// absent.
    func removing(_ key: Key) -> (slab: ChildMap.Slab?, rowCount: Int)? {
        switch self {
        case .paged(let paged): return paged.slab(for: .change).removing(key)
        case .entries(var entries):
            let (index, isFound) = entries.position(of: key)
            guard isFound else { return nil }
            let rows = entries[index].node.rowCount
            if entries.count == 1 { return (nil, rows) }
            entries.remove(at: index)
            return (.entries(entries), rows)
        case .inner(let inner):
            let slot = inner.slot(of: key)
            guard let (slab, rows) = inner.slabs[slot].removing(key) else { return nil }
            var slabs = inner.slabs
            var lowKeys = inner.lowKeys
            if let slab {
                slabs[slot] = slab
                if lowKeys[slot] == key { lowKeys[slot] = slab.lowKey }
                if slab.fill < ChildMap.width / 4 { Self.mergeNeighbour(of: slot, &slabs, &lowKeys) }
            } else {
                if slabs.count == 1 { return (nil, rows) }
                slabs.remove(at: slot)
                lowKeys.remove(at: slot)
            }
            return (.inner(.init(slabs, lowKeys, from: inner, count: -1, rowCount: -rows)), rows)
        }
    }

    /// Joins a thin slab with a neighbour if both fit in one.
    private static func mergeNeighbour(
        of slot: Int, _ slabs: inout ContiguousArray<ChildMap.Slab>, _ lowKeys: inout ContiguousArray<Key>
    ) {
        for left in [slot - 1, slot] where left >= 0 && left + 1 < slabs.count {
            guard slabs[left].fill + slabs[left + 1].fill <= ChildMap.width * 3 / 4 else { continue }
            let joined: ChildMap.Slab
            switch (slabs[left], slabs[left + 1]) {
            case (.entries(let first), .entries(let second)): joined = .entries(first + second)
            case (.inner(let first), .inner(let second)): joined = .inner(.init(first.slabs + second.slabs))
            default: return
            }
            slabs.replaceSubrange(left...left + 1, with: CollectionOfOne(joined))
            lowKeys.remove(at: left + 1)
            return
        }
    }
}
