import Testing
import Tree

@Suite struct JSONSizeTests {
    /// The estimate counts at least every node of the text.
    @Test(arguments: 1...3 as ClosedRange<UInt64>) func noLessThanTheNodes(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        for _ in 0..<300 {
            let tree = random.tree(depth: 4)
            let text = JSONWriter.encode(tree, form: .export)
            #expect(JSONSize.estimate(text) >= (tree.rowCount - 1) * 64, "\(tree)")
        }
    }

    @Test func smallTextsOfManyNodesAreLarge() {
        let arrays = Array(("[" + String(repeating: "[0],", count: 10_000) + "[0]]").utf8)
        #expect(JSONSize.estimate(arrays) > 2_400_000)
        #expect(JSONSize.estimate(Array("\"\(String(repeating: "x", count: 100_000))\"".utf8)) == 0)
    }
}
