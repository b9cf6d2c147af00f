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
            return .inner(
                ChildMap.Inner(
                    Self.adopting(inner.slabs, paged.slabs, of: old.slabs), inner.lowKeys, from: inner, count: 0,
                    rowCount: 0))
        default: return self
        }
    }

    private static func adopting(
        _ slabs: ContiguousArray<ChildMap.Slab>, _ packed: ContiguousArray<ChildMap.Slab>,
        of base: ContiguousArray<ChildMap.Slab>
    ) -> ContiguousArray<ChildMap.Slab> {
        if slabs.count == base.count {
            return ContiguousArray(slabs.indices.map { slabs[$0].adopting(packed[$0], of: base[$0]) })
        }
        // Some were divided or have gone: those that stayed are known by what they are.
        var places: [UInt: Int] = [:]
        for (index, slab) in base.enumerated() { places[slab.identity] = index }
        return ContiguousArray(slabs.map { slab in places[slab.identity].map { packed[$0] } ?? slab })
    }
}
