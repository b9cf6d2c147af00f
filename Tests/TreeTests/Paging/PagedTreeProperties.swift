import Testing

@testable import Tree

/// Checks that a tree with pages equals the tree without pages, whichever pages are in memory.
struct PagedTreeProperties {
    @Test(arguments: 0..<60 as Range<UInt64>)
    func `pagedOut, changed, pagedOut again: as a tree without pages`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let pages = TestPages()
        var pager = pages.pager()
        var plain = generator.wideTree()
        var paged = pager.pageOut(plain)
        #expect(pages.count > 0, "seed \(seed): there are pages")
        for step in 0..<40 {
            if generator.random.oneIn(3) { pages.takeOut() }
            let path = generator.path(in: plain)
            let value = generator.value(at: path)
            let (before, beforePaged) = (plain, paged)
            plain = plain.replacing(path, with: value)
            paged = paged.replacing(path, with: value)
            if generator.random.oneIn(4) { pages.takeOut() }
            #expect(Self.rows(beforePaged, paged, path) == Self.rows(before, plain, path), "seed \(seed), step \(step)")
            #expect(
                paged.rowCount == plain.rowCount && paged.childCount == plain.childCount, "seed \(seed), step \(step)")
            if generator.random.oneIn(5) { paged = pager.pageOut(paged) }
        }
        pages.takeOut()
        #expect(paged == plain, "seed \(seed)")
        #expect(plain == paged, "seed \(seed)")
        #expect(json(paged) == json(plain), "seed \(seed)")
        #expect(paged.hash == plain.hash, "seed \(seed)")
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `single children, ranges and ends, with and without what is in memory`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let pages = TestPages()
        var pager = pages.pager()
        let plain = generator.wideTree()
        let paged = pager.pageOut(plain)
        guard case .branch(let branch) = plain, case .branch(let other) = paged else { return }
        for entry in branch.children {
            if generator.random.oneIn(7) { pages.takeOut() }
            #expect(other.children[entry.key] == entry.node)
            let from = branch.children.entries(from: entry.key).prefix(3).map(\.key)
            #expect(other.children.entries(from: entry.key).prefix(3).map(\.key) == from)
            var keys: [[Key]] = [[], []]
            for (index, children) in [branch.children, other.children].enumerated() {
                children.forEachReversed(from: entry.key) {
                    keys[index].append($0.key)
                    return keys[index].count < 4
                }
            }
            #expect(keys[0] == keys[1])
        }
        #expect(other.children.first?.key == branch.children.first?.key)
        #expect(other.children.last?.key == branch.children.last?.key)
    }

    /// Push ids are added at the right edge, which is split again and again.
    @Test func `an appended collection that is pagedOut after each few stays flat`() {
        let pages = TestPages()
        var pager = pages.pager()
        var plain = Node.null
        var paged = Node.null
        for number in 0..<3_000 {
            let path = Path([Key("m\(10_000 + number)"), Key("text")])
            plain = plain.replacing(path, with: .string("message \(number)"))
            paged = paged.replacing(path, with: .string("message \(number)"))
            if number % 7 == 0 { paged = pager.pageOut(paged) }
            if number % 100 == 0 { pages.takeOut() }
        }
        #expect(paged == plain && plain == paged)
        guard case .branch(let branch) = paged else { return }
        #expect(Self.depth(branch.children.root) <= 13)
    }

    private static func depth(_ slab: ChildMap.Slab) -> Int {
        guard case .inner(let inner) = slab else { return 0 }
        return 1 + inner.slabs.reduce(0) { max($0, depth($1)) }
    }

    /// Pages of a released tree are freed; pages that a later version shares are not.
    @Test func `pages live as long as some tree has them`() throws {
        let pages = TestPages()
        var pager = pages.pager()
        var tree: Node? = pager.pageOut(Self.records(400))
        let all = pages.count
        #expect(all > 10)
        var later = tree?.replacing(path("r00100/name"), with: .string("other"))
        #expect(pages.count == all, "the older tree still has the page that was changed")
        tree = nil
        #expect(pages.count == all - 1)
        #expect(try #require(later)[path("r00101/name")] == .string("name 101"))
        later = nil
        #expect(pages.count == 0 && pages.bytesInMemory == 0)
        pages.takeOut()
        #expect(pages.bytesInMemory == 0)
    }

    @Test func `what was used lately stays, what was walked over goes`() throws {
        let pages = TestPages()
        var pager = pages.pager()
        let tree = pager.pageOut(Self.records(400))
        pages.takeOut()
        let reads = pages.reads
        _ = tree[path("r00100/name")]
        _ = tree[path("r00100/name")]
        #expect(pages.reads == reads + 1, "a page is read once while it stays")
        #expect(json(tree).count > 1_000)
        #expect(pages.reads == reads + pages.count)
    }

    @Test func `without room the rest stays as it is`() {
        let pages = TestPages(room: 3)
        var pager = pages.pager()
        let plain = Self.records(400)
        let tree = pager.pageOut(plain)
        #expect(pager.hasEnded && pages.count == 3)
        #expect(tree == plain)
    }

    /// A paged-out part and its replacement are compared by their parts, in memory or not.
    @Test func `a difference costs what differs`() {
        let pages = TestPages()
        var pager = pages.pager()
        let tree = pager.pageOut(Self.records(2_000))
        pages.takeOut()
        let later = tree.replacing(path("r00100/name"), with: .string("other"))
        let reads = pages.reads
        guard case .branch(let old) = tree, case .branch(let new) = later else { return }
        var keys: [Key] = []
        new.children.forEachDifference(from: old.children) { keys.append(($0 ?? $1)?.key ?? Key("")) }
        #expect(keys == [Key("r00100")])
        #expect(later != tree)
        #expect(pages.reads == reads, "the one page that differs is in memory")
    }

    static func records(_ count: Int) -> Node {
        Node(
            children: (0..<count).map { number in
                let digits = String(number)
                let key = "r" + String(repeating: "0", count: 5 - digits.count) + digits
                return (
                    Key(key),
                    Node(children: [(Key("name"), .string("name \(number)")), (Key("number"), .int(Int64(number)))])
                )
            })
    }

    private static func rows(_ before: Node, _ after: Node, _ path: Path) -> [[UInt8]: [Node]] {
        var diff = RowDiff(RowCollector())
        diff.compare(before, after, changedAt: path)
        return Dictionary(uniqueKeysWithValues: diff.sink.rows.map { ($0.pathBytes, [$0.old, $0.new]) })
    }
}
