import Testing
import Tree

@Suite struct JSONLengthTests {
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func isThatOfTheText(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<400 {
            let tree = generator.tree(depth: 4)
            #expect(JSONLength.export(tree) == JSONWriter.encode(tree, form: .export).count, "\(json(tree))")
        }
    }

    @Test(arguments: [0, 9, 10, -1, -10, 99, 100, 12_345, Int64.max, .min]) func integers(value: Int64) {
        #expect(JSONLength.export(.int(value)) == "\(value)".utf8.count)
    }

    @Test func texts() {
        for byte in 0..<0x110 as Range<UInt32> {
            guard let scalar = UnicodeScalar(byte) else { continue }
            for text in ["\(scalar)", "xxxxxxx\(scalar)xxxxxxxxxx\(scalar)", "\(scalar)\(scalar)"] {
                let node = Node.string(text)
                #expect(JSONLength.export(node) == JSONWriter.encode(node, form: .export).count, "\(byte)")
            }
        }
        let value = Node.serverValue(ServerValue(.timestamp))
        #expect(JSONLength.export(value) == JSONWriter.encode(value, form: .export).count)
    }
}
