import Testing

@testable import Tree

/// Checks trees that are paged out while they are built.
struct PagedBuilderProperties {
    @Test(arguments: 0..<80 as Range<UInt64>)
    func `as without pages, whenever pagingOut begins`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let pages = TestPages()
        let plain = generator.wideTree()
        let rows = RowCollector.all(of: plain).sorted { $0.key.lexicographicallyPrecedes($1.key) }
        let begin = generator.random.below(rows.count)
        var builder = TreeBuilder()
        for (index, (path, value)) in rows.enumerated() {
            if index == begin { builder.beginPagingOut(pages.pager()) }
            if generator.random.oneIn(9) { pages.takeOut() }
            if generator.random.oneIn(9) {
                builder.addUnordered(Path(splitting: String(decoding: path, as: UTF8.self)), value)
            } else {
                path.withUnsafeBytes { builder.add($0, value) }
            }
        }
        let built = builder.finish()
        #expect(built == plain && plain == built, "seed \(seed)")
        #expect(built.rowCount == plain.rowCount)
        #expect(json(built) == json(plain), "seed \(seed)")
    }

    /// The bytes of integers have another order than their values: `1`, `10`, `100`, `11`, `2`.
    @Test func `keys whose bytes have another order`() {
        let pages = TestPages()
        var builder = TreeBuilder()
        builder.beginPagingOut(pages.pager())
        let numbers = (0..<3_000).map { String($0 - 100) }.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        for number in numbers {
            Array("/list/\(number)/value".utf8).withUnsafeBytes { builder.add($0, .string(number)) }
        }
        let built = builder.finish()
        guard case .branch(let list) = built.child(Key("list")) else {
            Issue.record("there is a list")
            return
        }
        #expect(list.children.map { Int($0.key.text) } == (0..<3_000).map { $0 - 100 })
        #expect(list.children.allSatisfy { $0.node.child(Key("value")) == .string($0.key.text) })
        #expect(pages.count > 50)
        // Merged pages are released on the way: two copies of them would need twice the disk space.
        #expect(pages.mostCount < pages.count * 5 / 4, "\(pages.mostCount) of \(pages.count)")
    }

    /// If the page keeper is full, the rest stays in memory until another packer is set.
    @Test func `another pager comes where one has ended`() {
        let full = TestPages(room: 10)
        let pages = TestPages()
        var builder = TreeBuilder()
        var states = [builder.isPagingOut]
        builder.beginPagingOut(full.pager())
        states.append(builder.isPagingOut)
        for number in 100_000..<110_000 {
            Array("/m\(number)/text".utf8).withUnsafeBytes { builder.add($0, .string("hello \(number)")) }
            if number == 105_000 {
                states.append(builder.isPagingOut)
                let bytes = builder.heapBytesInMemory
                #expect(bytes > 400_000 && full.count == 10)
                builder.beginPagingOut(pages.pager())
            }
        }
        states.append(builder.isPagingOut)
        let bytes = builder.heapBytesInMemory
        #expect(bytes < 50_000 && states == [false, true, false, true])
        let built = builder.finish()
        #expect(built.rowCount == 10_000 && full.count == 10 && pages.count > 50)
        #expect(built.child(Key("m104000")).child(Key("text")) == .string("hello 104000"))
        #expect(built.child(Key("m109999")).child(Key("text")) == .string("hello 109999"))
    }

    /// The reader of a tree notices in time that it is too large: the reported memory includes the keys, each as often
    /// as it occurs.
    @Test(arguments: ["-Nabcdefghijklm", "a user of the number "])
    func `keys count while a tree is built`(_ prefix: String) {
        var builder = TreeBuilder()
        for number in 100_000..<110_000 {
            Array("/members/\(prefix)\(number)/isAMemberOfTheGroup".utf8).withUnsafeBytes {
                builder.add($0, .bool(true))
            }
        }
        let said = builder.heapBytesInMemory
        let found = builder.finish().heapBytesOfTree
        #expect(said > found * 2 / 3 && said < found * 3 / 2, "\(said), \(found)")
    }

    @Test func `little of a large tree is in memory while it is built`() {
        let pages = TestPages()
        var builder = TreeBuilder()
        builder.beginPagingOut(pages.pager())
        var most = 0
        for number in 100_000..<120_000 {
            Array("/rooms/a/messages/m\(number)/text".utf8).withUnsafeBytes {
                builder.add($0, .string("hello \(number)"))
            }
            most = max(most, builder.heapBytesInMemory)
            if number.isMultiple(of: 500) { pages.takeOut() }
        }
        #expect(most < 20_000)
        let built = builder.finish()
        pages.takeOut()
        #expect(built.rowCount == 20_000)
        #expect(built.heapBytes < 20_000 * 70, "what is left are slabs and places of pages: \(built.heapBytes)")
    }
}
