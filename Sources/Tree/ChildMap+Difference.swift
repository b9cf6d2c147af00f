extension ChildMap {
    /// Visits the children in which this version differs from an older one: gone (only `old`), new (only `new`), or
    /// replaced (both). In no particular order. Parts that the two share are not looked at.
    public func forEachDifference(from older: ChildMap, _ body: (_ old: Entry?, _ new: Entry?) -> Void) {
        var gone: [Key: Entry] = [:]
        var fresh: [Entry] = []
        Self.compare(older.root, root, { gone[$0.key] = $0 }, { fresh.append($0) })
        for entry in fresh {
            let old = gone.removeValue(forKey: entry.key)
            if let old, old.node.isIdentical(to: entry.node) { continue }
            body(old, entry)
        }
        for entry in gone.values { body(entry, nil) }
    }

    private static func compare(_ old: Slab, _ new: Slab, _ gone: (Entry) -> Void, _ fresh: (Entry) -> Void) {
        if old.identity == new.identity { return }
        let (old, new) = (old.inMemory, new.inMemory)
        // A page, and what it was made of.
        if old.identity == new.identity { return }
        guard case .inner(let first) = old, case .inner(let second) = new else {
            each(old, gone)
            each(new, fresh)
            return
        }
        if first.slabs.count == second.slabs.count {
            for (old, new) in zip(first.slabs, second.slabs) { compare(old, new, gone, fresh) }
            return
        }
        let before = Set(first.slabs.map(\.identity))
        let after = Set(second.slabs.map(\.identity))
        for slab in first.slabs where !after.contains(slab.identity) { each(slab, gone) }
        for slab in second.slabs where !before.contains(slab.identity) { each(slab, fresh) }
    }

    private static func each(_ slab: Slab, _ body: (Entry) -> Void) {
        switch slab {
        case .entries(let entries): for entry in entries { body(entry) }
        case .inner(let inner): for slab in inner.slabs { each(slab, body) }
        case .paged(let paged): each(paged.slab(for: .walk), body)
        }
    }
}

extension ChildMap.Slab {
    /// What it is, or stands for: no page.
    fileprivate var inMemory: ChildMap.Slab {
        if case .paged(let paged) = self { paged.slab(for: .walk) } else { self }
    }

    /// Whether versions of a tree are compared by it. Records of a few fields are too many, and what they are in is remembered.
    var isWorthRemembering: Bool {
        if case .entries(let entries) = self { entries.count >= ChildMap.width / 4 } else { true }
    }

    /// The same for the very same slab; never the same for two that live at once.
    var identity: UInt {
        switch self {
        case .paged(let paged): UInt(bitPattern: Unmanaged.passUnretained(paged).toOpaque())
        case .entries(let entries): entries.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        case .inner(let inner): UInt(bitPattern: Unmanaged.passUnretained(inner).toOpaque())
        }
    }
}
