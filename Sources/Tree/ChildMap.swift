/// The children of a branch: a persistent B+tree in key order.
///
/// Reading one child and changing one child cost O(log n); a change copies one slab of at most `width` entries and the
/// inner slabs above it, so that a node with 100,000 children is never copied whole. A small node is one flat slab.
///
///     root                            inner
///                       lowKeys:  a     k       t
///                                 |     |       |
///                           entries   entries   paged
///                            a..j      k..s     t..z --> Page: bytes in the page file, content in memory while used
///
/// - `entries`: up to `width` children, sorted by key.
/// - `inner`: up to `width` slabs, the lowest key of each, and the sums of their `count` and `rowCount`.
/// - `paged`: represents slabs that `TreePager` has written to a page. A read uses the page's content. A change copies the
///   content into slabs of the new version, without the page.
///
/// A search descends, at each `inner`, into the last slab whose lowest key is not greater than the key. An insertion into a
/// full `entries` slab divides it into two halves. A key that is greater than all others begins a new slab instead, so
/// ascending keys such as push ids leave full slabs. A removal that leaves less than a quarter of `width` joins the slab with a
/// neighbour of the same kind if both together fill at most three quarters.
public struct ChildMap: Sendable {
    public struct Entry: Sendable {
        public let key: Key
        public let node: Node

        public init(key: Key, node: Node) {
            self.key = key
            self.node = node
        }
    }

    /// The maximum number of entries or slabs in one slab.
    static let width = 32

    enum Slab: Sendable {
        case entries(ContiguousArray<Entry>)
        case inner(Inner)
        /// A slab of another kind that may not be in memory.
        case paged(PagedSlab)
    }

    /// A level of the B+tree above the entries.
    final class Inner: Sendable {
        let slabs: ContiguousArray<Slab>
        /// The lowest key of each slab.
        let lowKeys: ContiguousArray<Key>
        let count: Int
        let rowCount: Int

        init(_ slabs: ContiguousArray<Slab>) {
            self.slabs = slabs
            lowKeys = ContiguousArray(slabs.map(\.lowKey))
            count = slabs.reduce(0) { $0 + $1.count }
            rowCount = slabs.reduce(0) { $0 + $1.rowCount }
        }

        /// Creates a changed copy. The sums come from the change itself, because computing them again would read every
        /// grandchild.
        init(
            _ slabs: ContiguousArray<Slab>, _ lowKeys: ContiguousArray<Key>, from old: Inner, count: Int, rowCount: Int
        ) {
            self.slabs = slabs
            self.lowKeys = lowKeys
            self.count = old.count + count
            self.rowCount = old.rowCount + rowCount
        }

        /// Returns the index of the slab that contains the key or would contain it.
        func slot(of key: Key) -> Int {
            var low = 0
            var high = lowKeys.count
            while low < high {
                let middle = (low + high) / 2
                if lowKeys[middle].order(against: key) <= 0 { low = middle + 1 } else { high = middle }
            }
            return low == 0 ? 0 : low - 1
        }
    }

    let root: Slab

    init(root: Slab) { self.root = root }

    /// Creates a map of entries that are sorted, unique and not null.
    init(sorted entries: ContiguousArray<Entry>) {
        root = Slab.build(entries)
    }

    public var count: Int { root.count }

    /// The number of storage rows of all children.
    var rowCount: Int { root.rowCount }

    public subscript(key: Key) -> Node? {
        var slab = root
        while true {
            switch slab {
            case .inner(let inner): slab = inner.slabs[inner.slot(of: key)]
            case .paged(let paged): slab = paged.slab(for: .read)
            case .entries(let entries):
                let (index, isFound) = entries.position(of: key)
                return isFound ? entries[index].node : nil
            }
        }
    }

    /// Returns the map with one child replaced, added or, for null, removed.
    func replacing(_ key: Key, with node: Node) -> ChildMap {
        if node.isNull {
            guard let removal = root.removing(key) else { return self }
            return ChildMap(root: removal.slab?.collapsed ?? .entries([]))
        }
        let changed = root.setting(Entry(key: key, node: node), isRightEdge: true)
        guard let split = changed.split else { return ChildMap(root: changed.slab) }
        return ChildMap(root: .inner(Inner([changed.slab, split])))
    }

    /// The first entry in key order.
    public var first: Entry? { root.count == 0 ? nil : root.edge(last: false) }
    /// The last entry in key order.
    public var last: Entry? { root.count == 0 ? nil : root.edge(last: true) }

    /// Sorts entries by key, keeps the last of equal keys, and removes nulls.
    static func normalize(_ entries: inout ContiguousArray<Entry>) {
        var isSorted = true
        var hasNull = false
        for index in entries.indices {
            if entries[index].node.isNull { hasNull = true }
            if index > 0, isSorted, entries[index - 1].key.order(against: entries[index].key) >= 0 { isSorted = false }
        }
        if !isSorted {
            // The sort is stable, so that the last of equal keys stays last.
            entries.sort { $0.key.order(against: $1.key) < 0 }
            var kept = ContiguousArray<Entry>()
            kept.reserveCapacity(entries.count)
            for entry in entries {
                if let last = kept.last, last.key == entry.key { kept.removeLast() }
                kept.append(entry)
            }
            entries = kept
        }
        if hasNull { entries.removeAll { $0.node.isNull } }
    }
}

extension UnsafeBufferPointer<ChildMap.Entry> {
    /// Returns the key's index, or the index at which it would be inserted.
    @inline(__always)
    func position(of key: Key) -> (index: Int, isFound: Bool) {
        key.text.withBytes { bytes in
            var low = 0
            var high = count
            while low < high {
                let middle = (low + high) / 2
                let order = self[middle].key.text.withBytes { Key.order($0, bytes) }
                if order == 0 { return (middle, true) }
                if order < 0 { low = middle + 1 } else { high = middle }
            }
            return (low, false)
        }
    }
}

extension ContiguousArray<ChildMap.Entry> {
    /// Returns the key's index, or the index at which it would be inserted.
    @inline(__always)
    func position(of key: Key) -> (index: Int, isFound: Bool) {
        withUnsafeBufferPointer { $0.position(of: key) }
    }

    /// Returns a copy with one more entry, of exactly the needed size.
    func inserting(_ entry: ChildMap.Entry, at index: Int) -> Self {
        var grown = ContiguousArray<ChildMap.Entry>()
        grown.reserveCapacity(count + 1)
        grown.append(contentsOf: self[..<index])
        grown.append(entry)
        grown.append(contentsOf: self[index...])
        return grown
    }
}

extension ChildMap.Slab {
    var count: Int {
        switch self {
        case .entries(let entries): entries.count
        case .inner(let inner): inner.count
        case .paged(let paged): paged.count
        }
    }

    var rowCount: Int {
        switch self {
        case .entries(let entries): entries.reduce(0) { $0 + $1.node.rowCount }
        case .inner(let inner): inner.rowCount
        case .paged(let paged): paged.rowCount
        }
    }

    /// The lowest key. A slab within the tree is never empty.
    var lowKey: Key {
        switch self {
        case .entries(let entries): entries.first?.key ?? Key("")
        case .inner(let inner): inner.lowKeys[0]
        case .paged(let paged): paged.lowKey
        }
    }

    /// The number of entries or slabs directly in this slab. A page counts as full, so that it is not read only to be joined
    /// with another slab.
    var fill: Int {
        switch self {
        case .entries(let entries): entries.count
        case .inner(let inner): inner.slabs.count
        case .paged: ChildMap.width
        }
    }

    func edge(last: Bool) -> ChildMap.Entry {
        switch self {
        case .entries(let entries): entries[last ? entries.count - 1 : 0]
        case .inner(let inner): inner.slabs[last ? inner.slabs.count - 1 : 0].edge(last: last)
        case .paged(let paged): paged.slab(for: .walk).edge(last: last)
        }
    }

    /// The only slab of a root with one slab, or else this slab.
    var collapsed: ChildMap.Slab {
        if case .inner(let inner) = self, inner.slabs.count == 1 { return inner.slabs[0].collapsed }
        return self
    }

    static func build(_ entries: ContiguousArray<ChildMap.Entry>) -> ChildMap.Slab {
        if entries.count <= ChildMap.width {
            // The allocator rounds up. More capacity would never be used or released.
            if entries.capacity <= entries.count + 1 { return .entries(entries) }
            var copy = ContiguousArray<ChildMap.Entry>()
            copy.reserveCapacity(entries.count)
            copy.append(contentsOf: entries)
            return .entries(copy)
        }
        var level = ContiguousArray<ChildMap.Slab>()
        for part in parts(entries.count) { level.append(.entries(ContiguousArray(entries[part]))) }
        while level.count > ChildMap.width {
            var above = ContiguousArray<ChildMap.Slab>()
            for part in parts(level.count) { above.append(.inner(.init(ContiguousArray(level[part])))) }
            level = above
        }
        return .inner(.init(level))
    }

    /// Divides a count into even parts of at most three quarters of the width, which leaves space for more, or, if `isFull`,
    /// into full parts and a remainder.
    static func parts(_ count: Int, isFull: Bool = false) -> [Range<Int>] {
        if isFull {
            return stride(from: 0, to: count, by: ChildMap.width).map { $0..<min($0 + ChildMap.width, count) }
        }
        let number = (count + ChildMap.width * 3 / 4 - 1) / (ChildMap.width * 3 / 4)
        return (0..<number).map { count * $0 / number..<count * ($0 + 1) / number }
    }
}

extension ChildMap {
    /// Visits the children in which this version differs from an older one: removed (only `old`), new (only `new`), or replaced
    /// (both). In no particular order. Skips parts that the two versions share.
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
        // A page may be compared with the slab from which it was made.
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
    /// The slab, or the content of its page.
    fileprivate var inMemory: ChildMap.Slab {
        if case .paged(let paged) = self { paged.slab(for: .walk) } else { self }
    }

    /// Whether counts of shared memory remember this slab. Records of a few fields would be too many; the slabs that contain
    /// them are remembered.
    var isWorthRemembering: Bool {
        if case .entries(let entries) = self { entries.count >= ChildMap.width / 4 } else { true }
    }

    /// A number that is equal for the same slab, and different for two slabs that exist at the same time.
    var identity: UInt {
        switch self {
        case .paged(let paged): UInt(bitPattern: Unmanaged.passUnretained(paged).toOpaque())
        case .entries(let entries): entries.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        case .inner(let inner): UInt(bitPattern: Unmanaged.passUnretained(inner).toOpaque())
        }
    }
}
