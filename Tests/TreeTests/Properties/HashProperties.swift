import Crypto
import Testing
import Tree

/// Compares node hashes with a plain implementation of the protocol's text (rtdb-protocol 4.1).
struct HashProperties {
    private func leaf(_ node: Node) -> String {
        switch node {
        case .bool(let value): "boolean:\(value)"
        case .int(let value): number(Double(value))
        case .double(let value): number(value)
        case .string(let text): "string:" + text
        default: "?"
        }
    }

    private func number(_ value: Double) -> String {
        let digits = String(value.bitPattern, radix: 16)
        return "number:" + String(repeating: "0", count: 16 - digits.count) + digits
    }

    private func hash(_ node: Node) -> String {
        if node.isNull { return "" }
        var text = node.priority.isNull ? "" : "priority:\(leaf(node.priority)):"
        if case .branch(let branch) = node {
            let ordered = branch.children.sorted { left, right in
                let order = ValueOrder.compare(left.node.priority, right.node.priority)
                return order == 0 ? left.key < right.key : order < 0
            }
            for entry in ordered { text += ":\(entry.key.text):\(hash(entry.node))" }
        } else {
            text += leaf(node.withoutPriority)
        }
        return String(decoding: Base64.encode(Digest.sha1(Array(text.utf8))), as: UTF8.self)
    }

    @Test(arguments: 0..<120 as Range<UInt64>)
    func `a hash is that of the text`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let tree = generator.tree(depth: 5)
        #expect(tree.hash == hash(tree), "seed \(seed)")
    }

    @Test(arguments: 200..<260 as Range<UInt64>)
    func `another value has another hash, the same value the same`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let tree = generator.tree(depth: 4)
        let other = tree.replacing(generator.path(maxDepth: 3), with: generator.tree(depth: 2))
        // Equal numbers of both kinds have the same hash, although their trees differ.
        if hash(tree) != hash(other) { #expect(tree.hash != other.hash) }
        #expect(JSONWriter.encode(tree, form: .export) == JSONWriter.encode(other, form: .export) || tree != other)
        var rebuilt = Node.null
        for (path, value) in RowCollector.all(of: tree).sorted(by: { $0.key.count < $1.key.count }) {
            rebuilt = rebuilt.replacing(Path(splitting: String(decoding: path, as: UTF8.self)), with: value)
        }
        if !tree.hasPriorities { #expect(rebuilt.hash == tree.hash) }
    }

    /// Hashes long texts and many children, which are larger than any buffer of the hash function.
    @Test func `large values`() {
        let wide = Node(children: (0..<3_000).map { (Key("k\($0)"), Node.string("v\($0)")) })
        #expect(wide.hash == hash(wide))
        let long = Node.string(String(repeating: "é😀", count: 50_000)).withPriority(.double(-0.0))
        #expect(long.hash == hash(long))
        let deep = Node.null.replacing(Path(Array(repeating: Key("é"), count: 32)), with: .int(.min))
        #expect(deep.hash == hash(deep))
        let ordered = Node(
            children: (0..<500).map { (Key("k\($0)"), Node.bool(true).withPriority(.int(Int64(500 - $0) / 3))) })
        #expect(ordered.hash == hash(ordered))
    }
}
