/// How a tree that has been changed while it was packed gets the pages.
extension Node {
    /// This tree with the pages of `packed` where it has the very parts that `base` had.
    ///
    /// - Parameters:
    ///   - packed: `base` with pages.
    ///   - base: an earlier version of this tree.
    ///
    /// Costs what has changed since.
    public func adopting(_ packed: Node, of base: Node) -> Node {
        if isIdentical(to: base) { return packed }
        guard case .branch(let branch) = self, case .branch(let old) = base, case .branch(let paged) = packed,
            old !== paged
        else { return self }
        let root = branch.children.root.adopting(paged.children.root, of: old.children.root)
        if root.identity == branch.children.root.identity { return self }
        return .branch(Branch(priority: branch.priority, children: ChildMap(root: root)))
    }
}

extension ChildMap.Slab {
    fileprivate func adopting(_ packed: ChildMap.Slab, of base: ChildMap.Slab) -> ChildMap.Slab {
        if identity == base.identity { return packed }
        if packed.identity == base.identity { return self }
        switch (self, base, packed) {
        case (.entries(let entries), .entries(let old), .entries(let paged)):
            var adopted = entries
            for (index, entry) in entries.enumerated() {
                // The packed ones have the same keys as those that they come from.
                let (place, isFound) = old.place(of: entry.key)
                guard isFound else { continue }
                let node = entry.node.adopting(paged[place].node, of: old[place].node)
                if !node.isIdentical(to: entry.node) { adopted[index] = .init(key: entry.key, node: node) }
            }
            return .entries(adopted)
        case (.inner(let inner), .inner(let old), .inner(let paged)):
            return .inner(ChildMap.Inner(inner.adopting(ChildMap.Correspondence(old.slabs, paged.slabs))))
        default: return self
        }
    }
}

extension ChildMap {
    /// Which slabs of a level have become which, when it was packed: neighbours may have become one page.
    fileprivate struct Correspondence {
        /// For each slab of the packed level the places of those that it stands for.
        private(set) var parts: [(base: Range<Int>, packed: Slab)] = []
        let base: ContiguousArray<Slab>
        /// Where a slab of the base is, by what it is.
        private var places: [UInt: Int] = [:]

        init(_ base: ContiguousArray<Slab>, _ packed: ContiguousArray<Slab>) {
            self.base = base
            for (place, slab) in base.enumerated() { places[slab.identity] = place }
            var next = 0
            for slab in packed {
                let first = next
                var count = 0
                while count < slab.count, next < base.count {
                    count += base[next].count
                    next += 1
                }
                parts.append((first..<next, slab))
            }
        }

        /// The part to which a slab that has not changed belongs.
        func part(of slab: Slab) -> (base: Range<Int>, packed: Slab)? {
            guard let place = places[slab.identity] else { return nil }
            return parts.first { $0.base.contains(place) }
        }
    }
}

extension ChildMap.Inner {
    /// Its slabs, those as they are packed that have not changed, and all of whose page has not.
    fileprivate func adopting(_ packed: ChildMap.Correspondence) -> ContiguousArray<ChildMap.Slab> {
        var adopted = ContiguousArray<ChildMap.Slab>()
        var next = 0
        while next < slabs.count {
            let slab = slabs[next]
            if let part = packed.part(of: slab) {
                let end = next + part.base.count
                if end <= slabs.count,
                    zip(slabs[next..<end], packed.base[part.base]).allSatisfy({ $0.identity == $1.identity })
                {
                    adopted.append(part.packed)
                    next = end
                    continue
                }
                adopted.append(slab)
            } else if slabs.count == packed.base.count,
                let part = packed.parts.first(where: { $0.base == next..<next + 1 })
            {
                adopted.append(slab.adopting(part.packed, of: packed.base[next]))
            } else if case .inner(let below) = slab {
                // The level was divided: those that were on it are a level lower now.
                adopted.append(.inner(ChildMap.Inner(below.adopting(packed))))
            } else {
                adopted.append(slab)
            }
            next += 1
        }
        return adopted
    }
}
