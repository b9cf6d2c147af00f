import Testing
import Tree

/// Builds trees from sorted rows.
struct TreeBuilderTests {
    @Test(arguments: [
        "null", "1", #"{".value":1,".priority":2}"#, #"{"a":1}"#, #"{"a":{"b":{"c":1}},"b":2,".priority":3}"#,
        #"{"a":{".value":1,".priority":2},"a b":3,"a!":{"x":4,".priority":5}}"#,
        #"{"a":{"x":1,"y":2,".priority":"p"},"a b":{"x":3},"a-":4,"ab":{"x":5}}"#,
        #"{"a":{"-":1,"x":{"y":1},".priority":9},"a ":{"-":1,".priority":8}}"#,
        #"{"1":{"2":3},"10":{"2":4},"2":5,"-1":6}"#,
        #"{"é":{"😀":1,"～":2},"😀":3}"#,
    ])
    func `a tree's rows build the tree`(text: String) throws {
        let tree = try node(text)
        #expect(RowCollector.tree(of: RowCollector.all(of: tree)) == tree)
    }

    @Test func `late rows find their positions`() throws {
        var builder = TreeBuilder()
        for (path, value) in [("/a/b", Node.int(1)), ("/c", .int(2))] {
            Array(path.utf8).withUnsafeBytes { builder.add($0, value) }
        }
        builder.addUnordered(path("a/a/.priority"), .int(9))
        builder.addUnordered(path("a/a"), .int(3))
        builder.addUnordered(path(".priority"), .int(8))
        #expect(try builder.finish() == node(#"{"a":{"a":{".value":3,".priority":9},"b":1},"c":2,".priority":8}"#))
        #expect(builder.finish().isNull)
    }
}
