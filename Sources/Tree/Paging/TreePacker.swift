/// How large pages are, in bytes as they are kept.
public struct PageSizes: Sendable {
    /// What is below this goes into one page with what is beside it. A page is read and written out as a whole: a larger one saves memory for
    /// what points to it and costs more when one thing in it is wanted.
    var target = 16 << 10
    /// Less is not worth a page of its own.
    var least = 512
    /// While a tree is built, what takes about so many bytes of memory of one branch's children is packed together.
    var bytesOfRun = 3 << 19

    public init() {}
}

/// Makes pages of a tree: neighbouring children together, as many as make a page worthwhile; a larger child has pages of its own, and a large
/// leaf is one. A tree with pages is the same tree.
///
/// The packer goes through the tree from the leaves to the root. Neighbouring slabs, or neighbouring children of one
/// slab, become a page together as long as they have at most `PageSizes.target` bytes and no pages below them.
/// Neighbours with fewer than `PageSizes.least` bytes together stay without a page.
///
///     before                                      after
///
///     inner                                       inner
///     |- entries a..h    9 kB                     |- paged a..k: page 1, 14 kB
///     |- entries i..k    5 kB                     |- paged l..q: page 2, 11 kB
///     |- entries l..q   11 kB                     `- entries r..z
///     `- entries r..z                                `- s: branch; its children are in pages of their own
///        `- s: branch, 900 kB; the others 200 bytes
///
/// The root of the tree and slabs such as `r..z` stay in memory. The packer ends when the keeper has no room or
/// `goesOn` returns false; slabs that it has not packed by then stay as they are. A caller can pack a tree again: pages
/// of an earlier packing stay. `TreeBuilder` packs while it reads a tree from the database, one run of children at a
/// time (`PagedRuns`).
public struct TreePacker {
    private let keeper: any PageKeeper
    let sizes: PageSizes
    private let goesOn: @Sendable () -> Bool
    private var writer = ByteWriter()
    /// Rows of the tree that are in pages which this packer made.
    public private(set) var packedRows = 0
    /// About what they take when they are in memory, in bytes.
    public private(set) var packedHeapBytes = 0
    /// The keeper had no room left, or it was told to end: nothing more is packed.
    public private(set) var hasEnded = false

    /// - Parameter goesOn: asked before each page whether there is still use for it.
    public init(
        _ keeper: any PageKeeper, sizes: PageSizes = PageSizes(), goesOn: @escaping @Sendable () -> Bool = { true }
    ) {
        self.keeper = keeper
        self.sizes = sizes
        self.goesOn = goesOn
    }

    /// The tree with what is not in pages yet in pages. What is small stays as it is.
    public mutating func pack(_ node: Node) -> Node {
        guard case .branch(let branch) = node else { return node }
        return Self.node(branch, Self.levelled(pack(branch.children.root).slab))
    }

    /// Deeper ones are built anew: what is divided again and again where it grows goes a level down each time.
    private static let mostDepth = 12

    private static func levelled(_ slab: ChildMap.Slab) -> ChildMap.Slab {
        guard depth(of: slab) > mostDepth else { return slab }
        var level = ContiguousArray<ChildMap.Slab>()
        collect(slab, into: &level)
        while level.count > ChildMap.width { level = ChildMap.Inner.above(level, isFull: false) }
        return Self.slab(of: level)
    }

    private static func depth(of slab: ChildMap.Slab) -> Int {
        guard case .inner(let inner) = slab else { return 0 }
        return 1 + inner.slabs.reduce(0) { max($0, depth(of: $1)) }
    }

    private static func collect(_ slab: ChildMap.Slab, into level: inout ContiguousArray<ChildMap.Slab>) {
        guard case .inner(let inner) = slab else { return level.append(slab) }
        for slab in inner.slabs { collect(slab, into: &level) }
    }

    /// The same for children that are only some of a branch's; here what is small makes a page, too.
    mutating func pack(_ children: ChildMap) -> ChildMap {
        let packed = pack(children.root)
        return ChildMap(root: packed.isWhole ? page(packed.slab) : packed.slab)
    }

    /// A slab without those parts that have become pages.
    private struct Packed {
        let slab: ChildMap.Slab
        /// About how many bytes a page of it would take.
        let bytes: Int
        /// Nothing below is a page.
        let isWhole: Bool
    }

    private mutating func pack(_ slab: ChildMap.Slab) -> Packed {
        switch slab {
        case .paged: return Packed(slab: slab, bytes: 0, isWhole: false)
        case .entries(let entries): return pack(entries)
        case .inner(let inner):
            let parts = inner.slabs.map { pack($0) }
            let bytes = parts.reduce(0) { $0 + $1.bytes }
            if bytes <= sizes.target, parts.allSatisfy(\.isWhole) {
                return Packed(slab: slab, bytes: bytes, isWhole: true)
            }
            var slabs = ContiguousArray<ChildMap.Slab>()
            for group in groups(parts.map { ($0.bytes, $0.isWhole) }) {
                let members = ContiguousArray(parts[group.places].map(\.slab))
                if group.isPage {
                    slabs.append(page(members.count == 1 ? members[0] : .inner(ChildMap.Inner(members))))
                } else {
                    slabs.append(contentsOf: members)
                }
            }
            return Packed(slab: Self.slab(of: slabs), bytes: 0, isWhole: false)
        }
    }

    private mutating func pack(_ entries: ContiguousArray<ChildMap.Entry>) -> Packed {
        var packed = entries
        var sums: [(bytes: Int, isWhole: Bool)] = []
        sums.reserveCapacity(entries.count)
        for (index, entry) in entries.enumerated() {
            let keyBytes = entry.key.byteCount + 2
            guard case .branch(let branch) = entry.node else {
                sums.append((keyBytes + Self.bytes(of: entry.node), true))
                continue
            }
            let below = pack(branch.children.root)
            sums.append((keyBytes + below.bytes + Self.bytes(of: branch.priority), below.isWhole))
            if !below.isWhole {
                packed[index] = .init(key: entry.key, node: Self.node(branch, Self.levelled(below.slab)))
            }
        }
        let bytes = sums.reduce(0) { $0 + $1.bytes }
        if bytes <= sizes.target, sums.allSatisfy(\.isWhole) {
            return Packed(slab: .entries(entries), bytes: bytes, isWhole: true)
        }
        var slabs = ContiguousArray<ChildMap.Slab>()
        for group in groups(sums) {
            let slab = ChildMap.Slab.entries(ContiguousArray(packed[group.places]))
            slabs.append(group.isPage ? page(slab) : slab)
        }
        return Packed(slab: Self.slab(of: slabs), bytes: 0, isWhole: false)
    }

    /// Neighbours that go into one page, or stay together without one, in their order.
    private struct Group {
        var places: Range<Int>
        let isPage: Bool
    }

    /// Pages of about the target each, between what has pages already.
    private func groups(_ parts: [(bytes: Int, isWhole: Bool)]) -> [Group] {
        var groups: [Group] = []
        var next = 0
        while next < parts.count {
            let first = next
            var bytes = 0
            while next < parts.count, parts[next].isWhole, bytes == 0 || bytes + parts[next].bytes <= sizes.target {
                bytes += parts[next].bytes
                next += 1
            }
            if bytes >= sizes.least {
                groups.append(Group(places: first..<next, isPage: true))
                continue
            }
            // Too little for a page, or what has pages: it stays with what is before it.
            if next == first { next += 1 }
            if let last = groups.last, !last.isPage {
                groups[groups.count - 1].places = last.places.lowerBound..<next
            } else {
                groups.append(Group(places: first..<next, isPage: false))
            }
        }
        return groups
    }

    private static func slab(of slabs: ContiguousArray<ChildMap.Slab>) -> ChildMap.Slab {
        slabs.count == 1 ? slabs[0] : .inner(ChildMap.Inner(slabs))
    }

    private static func node(_ branch: Branch, _ slab: ChildMap.Slab) -> Node {
        if slab.identity == branch.children.root.identity { return .branch(branch) }
        return .branch(Branch(priority: branch.priority, children: ChildMap(root: slab)))
    }

    /// About how many bytes a leaf takes in a page.
    private static func bytes(of leaf: Node) -> Int {
        switch leaf {
        case .string(let text): text.utf8.count + 1
        case .prioritized(let leaf): bytes(of: leaf.value) + bytes(of: leaf.priority) + 1
        case .double: 9
        default: 4
        }
    }

    /// The page of a slab without pages in it; the slab where there is no room.
    private mutating func page(_ slab: ChildMap.Slab) -> ChildMap.Slab {
        if hasEnded || slab.count == 0 { return slab }
        guard goesOn() else {
            hasEnded = true
            return slab
        }
        writer.removeAll()
        PageCodec.encode(slab, to: &writer)
        let paged = writer.bytes.withUnsafeBytes { PagedSlab(slab, bytes: $0, in: keeper) }
        guard let paged else {
            hasEnded = true
            return slab
        }
        packedRows += slab.rowCount
        packedHeapBytes += paged.heapBytes
        return .paged(paged)
    }
}
