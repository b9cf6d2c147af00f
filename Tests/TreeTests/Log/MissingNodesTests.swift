import Testing
import Tree

struct MissingNodesTests {
    private func missing(_ earlier: String, _ later: String, _ location: String = "") throws -> [String] {
        MissingNodes.find(of: try node(earlier), in: try node(later), below: path(location)).map {
            "\($0.path) \(json($0.value))"
        }
    }

    @Test(
        arguments: [
            (#"{"a":1}"#, #"{"a":1}"#, []), (#"{"a":1}"#, #"{"a":2,"b":3}"#, []),
            (#"{"a":1,"b":2}"#, #"{"b":3}"#, ["/a 1"]),
            (#"{"a":{"x":1,"y":{"z":2}}}"#, #"{"a":{"x":5}}"#, [#"/a/y {"z":2}"#]),
            (#"{"a":1}"#, "null", [#"/ {"a":1}"#]),
            // A priority comes back with its node only.
            (#"{"a":{"x":1,".priority":2}}"#, "{\"b\":1}", [#"/a {"x":1,".priority":2}"#]),
            (#"{"a":{"x":1,".priority":2}}"#, #"{"a":{"x":1}}"#, []),
            // A value is in the way, or would go.
            (#"{"a":{"x":1}}"#, #"{"a":5}"#, []), (#"{"a":5}"#, #"{"a":{"x":1}}"#, []),
        ] as [(String, String, [String])])
    func `what is missing`(earlier: String, later: String, expected: [String]) throws {
        #expect(try missing(earlier, later) == expected)
    }

    @Test func `below a path`() throws {
        #expect(try missing(#"{"a":{"x":1},"b":2}"#, #"{"c":1}"#, "a") == [#"/a {"x":1}"#])
        #expect(try missing(#"{"a":{"b":{"x":1}}}"#, #"{"a":5}"#, "a/b").isEmpty)
    }

    /// Writing what is missing adds rows, and changes and removes none.
    @Test(arguments: 0..<200 as Range<UInt64>)
    func `nothing else is touched`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let earlier = generator.tree(depth: 4)
        let later = earlier.replacing(generator.path(maxDepth: 2), with: generator.tree(depth: 3))
        let missing = MissingNodes.find(of: earlier, in: later, below: .root)
        let restored = later.replacing(missing)
        let summary = RowSummary(from: later, to: restored)
        #expect(!summary.replacesRows, "seed \(seed)")
        #expect(summary.added.count == Int64(missing.reduce(0) { $0 + $1.value.rowCount }), "seed \(seed)")
        #expect(MissingNodes.find(of: earlier, in: restored, below: .root).isEmpty, "seed \(seed)")
    }
}
