extension ChildMap {
    /// Visits the children in which this version differs from an older one, in key order: removed (only `old`), new (only
    /// `new`), or not identical (both). Skips slabs that the two versions share, also if slabs before them were divided
    /// or joined, and needs memory for one path of slabs.
    func forEachOrderedDifference(from older: ChildMap, _ body: (_ old: Entry?, _ new: Entry?) -> Void) {
        var first = Cursor(older.root)
        var second = Cursor(root)
        while true {
            switch (first.place, second.place) {
            case (.end, .end): return
            case (.slab(let old), .slab(let new)):
                if old.identity == new.identity {
                    first.skip()
                    second.skip()
                } else if old.count >= new.count {
                    first.expand()
                } else {
                    second.expand()
                }
            case (.slab(let old), .entry(let new)):
                // A slab whose lowest key is greater stays closed: it may be shared with the other version's next one.
                guard new.key < old.lowKey else {
                    first.expand()
                    continue
                }
                body(nil, new)
                second.skip()
            case (.entry(let old), .slab(let new)):
                guard old.key < new.lowKey else {
                    second.expand()
                    continue
                }
                body(old, nil)
                first.skip()
            case (.entry(let old), .entry(let new)):
                let order = old.key.order(against: new.key)
                if order < 0 {
                    body(old, nil)
                } else if order > 0 {
                    body(nil, new)
                } else if !old.node.isIdentical(to: new.node) {
                    body(old, new)
                }
                if order <= 0 { first.skip() }
                if order >= 0 { second.skip() }
            case (.end, .slab): second.expand()
            case (.slab, .end): first.expand()
            case (.end, .entry(let new)):
                body(nil, new)
                second.skip()
            case (.entry(let old), .end):
                body(old, nil)
                first.skip()
            }
        }
    }

    /// A position between two slabs or before an entry.
    private struct Cursor {
        enum Place {
            case slab(Slab)
            case entry(Entry)
            case end
        }

        /// The slabs that follow the entries, the next one last.
        private var slabs: [Slab]
        private var entries: ContiguousArray<Entry> = []
        private var index = 0

        init(_ slab: Slab) { slabs = slab.count == 0 ? [] : [slab] }

        var place: Place {
            if index < entries.count { return .entry(entries[index]) }
            return slabs.last.map { .slab($0) } ?? .end
        }

        /// Passes the entry or the slab.
        mutating func skip() {
            if index < entries.count { index += 1 } else { slabs.removeLast() }
        }

        /// Replaces the slab by its content.
        mutating func expand() {
            switch slabs.removeLast() {
            case .inner(let inner): slabs.append(contentsOf: inner.slabs.reversed())
            case .paged(let paged): slabs.append(paged.slab(for: .walk))
            case .entries(let found):
                entries = found
                index = 0
            }
        }
    }
}
