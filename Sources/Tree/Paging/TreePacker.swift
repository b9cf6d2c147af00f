/// How large pages are, in bytes as they are kept.
public struct PageSizes: Sendable {
    /// What is below this goes into one page with what is beside it. A page is read and written out as a whole: a larger one saves memory for
    /// what points to it and costs more when one thing in it is wanted.
    var target = 16 << 10
    /// Less is not worth a page of its own.
    var least = 2 << 10
    /// A slab of large leaves makes one page, as it can't be divided; beyond this it stays in memory.
    var most = 16 << 20
    /// While a tree is built, so many rows of one branch's children are packed together.
    var rowsOfRun = 16_384

    public init() {}
}

/// Makes pages of a tree: neighbouring children together, as many as make a page worthwhile, whatever their size. A tree with pages is the
/// same tree.
public struct TreePacker {
    private let keeper: any PageKeeper
    let sizes: PageSizes
    private var writer = ByteWriter()
    /// Rows of the tree that are in pages which this packer made.
    public private(set) var packedRows = 0
    /// The keeper had no room left. Nothing more is packed.
    public private(set) var isOutOfRoom = false

    public init(_ keeper: any PageKeeper, sizes: PageSizes = PageSizes()) {
        self.keeper = keeper
        self.sizes = sizes
    }

    /// The tree with what is not in pages yet in pages. What is small stays as it is.
    public mutating func pack(_ node: Node) -> Node {
        guard case .branch(let branch) = node else { return node }
        let packed = pack(branch.children.root)
        return Self.node(branch, packed.slab)
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
            let isWhole = parts.allSatisfy(\.isWhole)
            if isWhole, bytes <= sizes.target { return Packed(slab: slab, bytes: bytes, isWhole: true) }
            let sizable = parts.reduce(0) { $0 + ($1.bytes >= sizes.least ? $1.bytes : 0) }
            if isWhole, sizable < bytes / 2 { return Packed(slab: page(slab), bytes: 0, isWhole: false) }
            var slabs = ContiguousArray<ChildMap.Slab>()
            slabs.reserveCapacity(parts.count)
            for part in parts {
                slabs.append(part.isWhole && part.bytes >= sizes.least / 4 ? page(part.slab) : part.slab)
            }
            let packed = ChildMap.Inner(slabs, inner.lowKeys, from: inner, count: 0, rowCount: 0)
            return Packed(slab: .inner(packed), bytes: 0, isWhole: false)
        }
    }

    private mutating func pack(_ entries: ContiguousArray<ChildMap.Entry>) -> Packed {
        var packed = entries
        var bytes = 0
        var isWhole = true
        /// Children that would be pages by themselves, and what they have together.
        var sizable: [Int] = []
        var sizableBytes = 0
        for (index, entry) in entries.enumerated() {
            bytes += entry.key.byteCount + 1
            guard case .branch(let branch) = entry.node else {
                bytes += Self.bytes(of: entry.node)
                continue
            }
            let below = pack(branch.children.root)
            bytes += below.bytes + 2
            if below.isWhole {
                if below.bytes >= sizes.least {
                    sizable.append(index)
                    sizableBytes += below.bytes
                }
            } else {
                isWhole = false
                packed[index] = .init(key: entry.key, node: Self.node(branch, below.slab))
            }
        }
        if isWhole, bytes <= sizes.target { return Packed(slab: .entries(entries), bytes: bytes, isWhole: true) }
        // Small ones, or large leaves, which are no pages by themselves.
        if isWhole, sizableBytes < bytes / 2, bytes <= sizes.most {
            return Packed(slab: page(.entries(entries)), bytes: 0, isWhole: false)
        }
        for index in sizable {
            guard case .branch(let branch) = packed[index].node else { continue }
            let node = Self.node(branch, page(branch.children.root))
            packed[index] = .init(key: packed[index].key, node: node)
        }
        return Packed(slab: .entries(packed), bytes: 0, isWhole: false)
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
        if isOutOfRoom || slab.count == 0 { return slab }
        writer.removeAll()
        PageCodec.encode(slab, to: &writer)
        let paged = writer.bytes.withUnsafeBytes { PagedSlab(slab, bytes: $0, in: keeper) }
        guard let paged else {
            isOutOfRoom = true
            return slab
        }
        packedRows += slab.rowCount
        return .paged(paged)
    }
}
