import Testing
import Tree

/// Builds trees from rows with paths of every length: rows with long paths arrive late and out of order.
struct TreeBuilderProperties {
    @Test(arguments: 0..<80 as Range<UInt64>)
    func `rows in the order of their bytes, some of them late, build the tree`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let tree = generator.tree(depth: 5)
        var builder = TreeBuilder()
        let rows = RowCollector.all(of: tree).sorted { $0.key.lexicographicallyPrecedes($1.key) }
        for (path, value) in rows {
            // Storage returns rows with long paths in the order of their hashes, at another time.
            if generator.random.oneIn(4) {
                builder.addUnordered(Path(splitting: String(decoding: path, as: UTF8.self)), value)
            } else {
                path.withUnsafeBytes { builder.add($0, value) }
            }
        }
        let (built, again) = (builder.finish(), builder.finish())
        #expect(built == tree, "seed \(seed)")
        #expect(again.isNull, "it is empty afterwards")
    }

    @Test func `wide and deep`() {
        var builder = TreeBuilder()
        var expected: [(Key, Node)] = []
        for number in 0..<5_000 {
            let key = "k" + String(repeating: "0", count: 5 - String(number).count) + String(number)
            Array("/\(key)/a/b".utf8).withUnsafeBytes { builder.add($0, .int(Int64(number))) }
            let below = Node(children: [(Key("b"), .int(Int64(number)))])
            expected.append((Key(key), Node(children: [(Key("a"), below)])))
        }
        let wide = builder.finish()
        #expect(wide == Node(children: expected))
        let deep = "/" + Array(repeating: "k", count: 32).joined(separator: "/")
        Array(deep.utf8).withUnsafeBytes { builder.add($0, .bool(true)) }
        let narrow = builder.finish()
        #expect(narrow == Node.null.replacing(Path(splitting: deep), with: .bool(true)))
    }

    /// Storage returns `/a`, `/a b` and `/a/x` in this order, as a space sorts before a slash.
    @Test func `keys whose texts begin alike`() throws {
        let tree = try node(
            #"{"a":{"x":{"y":1},".priority":3},"a ":{"x":2},"a!":5,"a-":{"z":{".value":1,".priority":2}},"aa":6}"#)
        #expect(RowCollector.tree(of: RowCollector.all(of: tree)) == tree)
    }

    /// The row of a priority and those of its node's children may arrive in either order: the children's paths are
    /// longer.
    @Test(arguments: [("/a/.priority", "a/x"), ("/a b/.priority", "a b/c/d"), ("/.priority", "a/x")])
    func `a priority whose node is late`(priority: String, leaf: String) {
        var builder = TreeBuilder()
        Array(priority.utf8).withUnsafeBytes { builder.add($0, .int(7)) }
        Array("/z".utf8).withUnsafeBytes { builder.add($0, .int(1)) }
        builder.addUnordered(path(leaf), .bool(true))
        let built = builder.finish()
        let expected = Node(children: [(Key("z"), .int(1))]).replacing(path(leaf), with: .bool(true))
            .replacing(Path(splitting: priority), with: .int(7))
        #expect(built == expected)
    }

    @Test func `no rows are nothing`() {
        var builder = TreeBuilder()
        let nothing = builder.finish()
        #expect(nothing.isNull)
        builder.addUnordered(path("a/.priority"), .int(1))
        let priority = builder.finish()
        #expect(priority.isNull, "a priority of nothing is nothing")
    }
}
