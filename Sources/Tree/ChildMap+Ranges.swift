/// Keys strictly between two bounds; a bound that is nil is open.
public struct KeyGap: Sendable, Equatable {
    public let after: Key?
    public let before: Key?

    public init(after: Key?, before: Key?) {
        self.after = after
        self.before = before
    }

    fileprivate func contains(_ key: Key) -> Bool { begins(before: key) && ends(after: key) }

    fileprivate func begins(before key: Key) -> Bool { after.map { $0 < key } ?? true }

    fileprivate func ends(after key: Key) -> Bool { before.map { key < $0 } ?? true }
}

extension Node {
    /// Returns the children whose keys are in a range, without the node's own priority: the data of a query by key without a
    /// limit. Null if there are none, also for a leaf. Shares all slabs within the range, so the cost is that of two
    /// changes of one child.
    ///
    /// - Parameters:
    ///   - first: the first key of the range; nil for an open start.
    ///   - last: the last key of the range; nil for an open end.
    public func restricted(toKeysFrom first: Key?, through last: Key?) -> Node {
        guard case .branch(let branch) = self else { return .null }
        var gaps: [KeyGap] = []
        var ends: [(key: Key, node: Node)] = []
        if let first, let last, last < first { return .null }
        // A gap excludes its bounds, and the bounds themselves stay as they are.
        if let first { gaps.append(KeyGap(after: nil, before: first)) }
        if let last { gaps.append(KeyGap(after: last, before: nil)) }
        for key in Set([first, last].compactMap(\.self)).sorted() { ends.append((key, child(key))) }
        let children = branch.children.replacing(ends.filter { !$0.node.isNull }, removing: gaps)
        return children.count == 0 ? .null : .branch(Branch(priority: .null, children: children))
    }

    /// Returns the node with several children replaced and ranges of children removed. Parts that are untouched are shared;
    /// a removed range costs as much as its two ends. A leaf counts as a node without children, and its priority is
    /// kept. Null if no child remains.
    ///
    /// - Parameters:
    ///   - entries: ordered by their keys, each key once; null removes the child. They win over `gaps`.
    ///   - gaps: the ranges that are removed, in order and without overlaps.
    public func replacingChildren(_ entries: [(key: Key, node: Node)], removing gaps: [KeyGap]) -> Node {
        guard !entries.isEmpty || !gaps.isEmpty else { return self }
        let old = if case .branch(let branch) = self { branch.children } else { ChildMap(sorted: []) }
        let children = old.replacing(entries, removing: gaps)
        if children.count == 0 { return .null }
        if isBranch, children.root.identity == old.root.identity { return self }
        return .branch(Branch(priority: priority, children: children))
    }
}

extension ChildMap {
    /// Returns the map with several children replaced and ranges of children removed: see `Node.replacingChildren`.
    func replacing(_ entries: [(key: Key, node: Node)], removing gaps: [KeyGap]) -> ChildMap {
        var slabs = root.editing(entries[...], gaps[...]).slabs
        while slabs.count > Self.width { slabs = Inner.above(slabs, isFull: false) }
        guard let first = slabs.first else { return ChildMap(root: .entries([])) }
        return ChildMap(root: slabs.count == 1 ? first.collapsed : .inner(Inner(slabs)))
    }
}

extension ChildMap.Slab {
    fileprivate typealias Edits = ArraySlice<(key: Key, node: Node)>

    /// Returns the slabs that replace this one, and the effect on the sums above. A slab without a change is returned itself.
    ///
    /// - Parameters:
    ///   - edits: those that belong into this slab.
    ///   - gaps: those that may contain keys of this slab, and possibly others.
    fileprivate func editing(_ edits: Edits, _ gaps: ArraySlice<KeyGap>) -> Settings {
        if edits.isEmpty, gaps.isEmpty { return Settings(slabs: [self], count: 0, rowCount: 0) }
        switch self {
        case .entries(let old): return Self.edited(old, edits, gaps)
        case .inner(let inner): return inner.editing(edits, gaps)
        case .paged(let paged):
            let content = paged.slab(for: .change)
            let edited = content.editing(edits, gaps)
            let isSame = edited.slabs.count == 1 && edited.slabs[0].identity == content.identity
            return isSame ? Settings(slabs: [self], count: 0, rowCount: 0) : edited
        }
    }

    private static func edited(
        _ old: ContiguousArray<ChildMap.Entry>, _ edits: Edits, _ gaps: ArraySlice<KeyGap>
    ) -> Settings {
        var kept = ContiguousArray<ChildMap.Entry>()
        kept.reserveCapacity(old.count + edits.count)
        let isEdited = !edits.isEmpty
        var edits = edits
        var gaps = gaps
        var rows = 0
        func append(_ edit: (key: Key, node: Node)) {
            guard !edit.node.isNull else { return }
            kept.append(.init(key: edit.key, node: edit.node))
            rows += edit.node.rowCount
        }
        for entry in old {
            while let edit = edits.first, edit.key < entry.key {
                append(edit)
                edits = edits.dropFirst()
            }
            while let gap = gaps.first, !gap.ends(after: entry.key) { gaps = gaps.dropFirst() }
            if let edit = edits.first, edit.key == entry.key {
                append(edit)
                edits = edits.dropFirst()
                rows -= entry.node.rowCount
            } else if gaps.first?.contains(entry.key) == true {
                rows -= entry.node.rowCount
            } else {
                kept.append(entry)
            }
        }
        for edit in edits { append(edit) }
        let count = kept.count - old.count
        if count == 0, !isEdited { return Settings(slabs: [.entries(old)], count: 0, rowCount: 0) }
        guard kept.count > ChildMap.width else {
            if kept.isEmpty { return Settings(slabs: [], count: count, rowCount: rows) }
            return Settings(slabs: [.entries(ContiguousArray(kept[...]))], count: count, rowCount: rows)
        }
        let slabs = parts(kept.count).map { ChildMap.Slab.entries(ContiguousArray(kept[$0])) }
        return Settings(slabs: ContiguousArray(slabs), count: count, rowCount: rows)
    }
}

extension ChildMap.Inner {
    fileprivate func editing(
        _ edits: ChildMap.Slab.Edits, _ gaps: ArraySlice<KeyGap>
    ) -> ChildMap.Slab.Settings {
        var changed = ContiguousArray<ChildMap.Slab>()
        changed.reserveCapacity(slabs.count)
        var edits = edits
        var gaps = gaps
        var (count, rows) = (0, 0)
        var isChanged = false
        for slot in slabs.indices {
            let slab = slabs[slot]
            let next = slot + 1 < slabs.count ? lowKeys[slot + 1] : nil
            while let gap = gaps.first, !gap.ends(after: lowKeys[slot]) { gaps = gaps.dropFirst() }
            let endOfEdits = next.flatMap { next in edits.firstIndex { $0.key >= next } } ?? edits.endIndex
            let mine = edits[..<endOfEdits]
            edits = edits[endOfEdits...]
            if mine.isEmpty, let gap = gaps.first, gap.begins(before: lowKeys[slot]),
                gap.before == nil || gap.covers(next)
            {
                isChanged = true
                count -= slab.count
                rows -= slab.rowCount
                continue
            }
            // The last of these gaps may extend into the next slabs.
            let endOfGaps = next.flatMap { next in gaps.firstIndex { !$0.begins(before: next) } } ?? gaps.endIndex
            guard !mine.isEmpty || endOfGaps > gaps.startIndex else {
                changed.append(slab)
                continue
            }
            let below = slab.editing(mine, gaps[..<endOfGaps])
            if below.slabs.count == 1, below.slabs[0].identity == slab.identity {
                changed.append(slab)
                continue
            }
            isChanged = true
            count += below.count
            rows += below.rowCount
            for slab in below.slabs { Self.append(slab, to: &changed) }
        }
        guard isChanged else { return .init(slabs: [.inner(self)], count: 0, rowCount: 0) }
        if changed.isEmpty { return .init(slabs: [], count: count, rowCount: rows) }
        guard changed.count > ChildMap.width else {
            let inner = ChildMap.Inner(
                changed, ContiguousArray(changed.map(\.lowKey)), from: self, count: count, rowCount: rows)
            return .init(slabs: [.inner(inner)], count: count, rowCount: rows)
        }
        return .init(slabs: Self.above(changed, isFull: false), count: count, rowCount: rows)
    }

    /// Appends a changed slab, and joins it with the one before it if both are thin.
    private static func append(_ slab: ChildMap.Slab, to slabs: inout ContiguousArray<ChildMap.Slab>) {
        if let last = slabs.last, min(last.fill, slab.fill) < ChildMap.width / 4,
            last.fill + slab.fill <= ChildMap.width * 3 / 4
        {
            switch (last, slab) {
            case (.entries(let first), .entries(let second)):
                slabs[slabs.count - 1] = .entries(first + second)
                return
            case (.inner(let first), .inner(let second)):
                slabs[slabs.count - 1] = .inner(.init(first.slabs + second.slabs))
                return
            default: break
            }
        }
        slabs.append(slab)
    }
}

extension KeyGap {
    /// Whether the gap reaches up to a slab that begins with this key; nil: to the end of the map.
    fileprivate func covers(_ next: Key?) -> Bool {
        guard let next, let before else { return false }
        return next <= before
    }
}
