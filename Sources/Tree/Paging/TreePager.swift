/// The sizes of pages, in stored bytes.
public struct PageSizes: Sendable {
    /// Parts smaller than this share a page with their neighbours. A page is read and written as a whole: a larger page saves
    /// memory for references to pages, and costs more if a single value is needed.
    var target = 16 << 10
    /// Smaller parts do not get a page of their own.
    var least = 512
    /// While a tree is built, children of one branch that take about this many bytes of memory are paged out together.
    var bytesOfRun = 3 << 19

    public init() {}
}

/// Puts a tree into pages: neighbouring children together, as many as make a page worthwhile. A larger child gets pages of its
/// own, and a large leaf is a page. A tree with pages is the same value as the tree without them.
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
/// The root of the tree and slabs such as `r..z` stay in memory. The packer ends when the keeper has no space or `shouldContinue`
/// returns false; the remaining slabs then stay as they are. A tree can be paged out again: its present pages stay.
/// `TreeBuilder` pages out a tree while it reads the tree from the database, one run of children at a time (`PagedRuns`).
public struct TreePager {
    private let keeper: any PageKeeper
    let sizes: PageSizes
    private let shouldContinue: @Sendable () -> Bool
    private var writer = ByteWriter()
    /// The number of the tree's rows in pages that this packer has created.
    public private(set) var pagedRows = 0
    /// The approximate size of the content of these pages in memory, in bytes.
    public private(set) var pagedHeapBytes = 0
    /// Whether the packer has ended, because the keeper had no space or `shouldContinue` returned false. No more pages are created
    /// then.
    public private(set) var hasEnded = false

    /// - Parameter shouldContinue: called before each page. Returns whether pages are still needed.
    public init(
        _ keeper: any PageKeeper, sizes: PageSizes = PageSizes(),
        shouldContinue: @escaping @Sendable () -> Bool = { true }
    ) {
        self.keeper = keeper
        self.sizes = sizes
        self.shouldContinue = shouldContinue
    }

    /// Returns the tree with all parts in pages that are not in pages yet. Small parts stay as they are.
    public mutating func pageOut(_ node: Node) -> Node {
        guard case .branch(let branch) = node else { return node }
        return Self.node(branch, Self.levelled(pageOut(branch.children.root).slab))
    }

    /// Deeper trees are rebuilt with fewer levels: a part that is divided repeatedly while it grows gets one level deeper each
    /// time.
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

    /// Returns some of a branch's children in pages. Here small parts become pages, too.
    mutating func pageOut(_ children: ChildMap) -> ChildMap {
        let pagedOut = pageOut(children.root)
        return ChildMap(root: pagedOut.isWhole ? page(pagedOut.slab) : pagedOut.slab)
    }

    /// A slab after its parts were put into pages, where worthwhile.
    private struct PagedOut {
        let slab: ChildMap.Slab
        /// The approximate size of a page with this slab, in bytes.
        let bytes: Int
        /// Whether there is no page below the slab.
        let isWhole: Bool
    }

    private mutating func pageOut(_ slab: ChildMap.Slab) -> PagedOut {
        switch slab {
        case .paged: return PagedOut(slab: slab, bytes: 0, isWhole: false)
        case .entries(let entries): return pageOut(entries)
        case .inner(let inner):
            let parts = inner.slabs.map { pageOut($0) }
            let bytes = parts.reduce(0) { $0 + $1.bytes }
            if bytes <= sizes.target, parts.allSatisfy(\.isWhole) {
                return PagedOut(slab: slab, bytes: bytes, isWhole: true)
            }
            var slabs = ContiguousArray<ChildMap.Slab>()
            for group in groups(parts.map { ($0.bytes, $0.isWhole) }) {
                let members = ContiguousArray(parts[group.range].map(\.slab))
                if group.isPage {
                    slabs.append(page(members.count == 1 ? members[0] : .inner(ChildMap.Inner(members))))
                } else {
                    slabs.append(contentsOf: members)
                }
            }
            return PagedOut(slab: Self.slab(of: slabs), bytes: 0, isWhole: false)
        }
    }

    private mutating func pageOut(_ entries: ContiguousArray<ChildMap.Entry>) -> PagedOut {
        var pagedOut = entries
        var sums: [(bytes: Int, isWhole: Bool)] = []
        sums.reserveCapacity(entries.count)
        for (index, entry) in entries.enumerated() {
            let keyBytes = entry.key.byteCount + 2
            guard case .branch(let branch) = entry.node else {
                sums.append((keyBytes + Self.bytes(of: entry.node), true))
                continue
            }
            let below = pageOut(branch.children.root)
            sums.append((keyBytes + below.bytes + Self.bytes(of: branch.priority), below.isWhole))
            if !below.isWhole {
                pagedOut[index] = .init(key: entry.key, node: Self.node(branch, Self.levelled(below.slab)))
            }
        }
        let bytes = sums.reduce(0) { $0 + $1.bytes }
        if bytes <= sizes.target, sums.allSatisfy(\.isWhole) {
            return PagedOut(slab: .entries(entries), bytes: bytes, isWhole: true)
        }
        var slabs = ContiguousArray<ChildMap.Slab>()
        for group in groups(sums) {
            let slab = ChildMap.Slab.entries(ContiguousArray(pagedOut[group.range]))
            slabs.append(group.isPage ? page(slab) : slab)
        }
        return PagedOut(slab: Self.slab(of: slabs), bytes: 0, isWhole: false)
    }

    /// Neighbours that go into one page, or stay together without one.
    private struct Group {
        var range: Range<Int>
        let isPage: Bool
    }

    /// Divides neighbours into pages of about the target size each, between parts that already have pages.
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
                groups.append(Group(range: first..<next, isPage: true))
                continue
            }
            // A part that is too small for a page, or has pages, stays with the group before it.
            if next == first { next += 1 }
            if let last = groups.last, !last.isPage {
                groups[groups.count - 1].range = last.range.lowerBound..<next
            } else {
                groups.append(Group(range: first..<next, isPage: false))
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

    /// Returns the approximate size of a leaf in a page, in bytes.
    private static func bytes(of leaf: Node) -> Int {
        switch leaf {
        case .string(let text): text.utf8.count + 1
        case .prioritized(let leaf): bytes(of: leaf.value) + bytes(of: leaf.priority) + 1
        case .double: 9
        default: 4
        }
    }

    /// Returns the page of a slab that contains no pages, or the slab itself if there is no space.
    private mutating func page(_ slab: ChildMap.Slab) -> ChildMap.Slab {
        if hasEnded || slab.count == 0 { return slab }
        guard shouldContinue() else {
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
        pagedRows += slab.rowCount
        pagedHeapBytes += paged.heapBytes
        return .paged(paged)
    }
}
