import ClientCore
import TestSupport
import Testing
import Tree

@Suite struct CodecTests {
    private static let leaves: [Node] = [
        .null, .bool(true), .bool(false), .int(0), .int(127), .int(128), .int(-1), .int(.min), .int(.max), .double(0.5),
        .double(-0.0), .double(.greatestFiniteMagnitude), .double(.leastNonzeroMagnitude), .string(""),
        .string(String(repeating: "x", count: 63)), .string(String(repeating: "é", count: 32)),
        .string(String(repeating: "y", count: 100_000)), .string("a\0b"),
        .serverValue(ServerValue(.timestamp)), .serverValue(ServerValue(.increment(.double(-1.5)))),
        .serverValue(ServerValue(.increment(.int(5)))),
    ]

    private func decode(_ bytes: [UInt8]) -> Node? { bytes.withUnsafeBytes { NodeCodec.decode($0) } }

    @Test func leavesComeBackExactly() {
        for leaf in Self.leaves {
            #expect(decode(NodeCodec.encode(leaf)) == leaf)
            guard !leaf.isNull else { continue }
            let prioritized = leaf.withPriority(.string("p"))
            #expect(decode(NodeCodec.encode(prioritized)) == prioritized)
        }
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func treesComeBackExactly(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<500 {
            let tree = generator.tree(depth: 5)
            let bytes = NodeCodec.encode(tree)
            #expect(decode(bytes) == tree)
            #expect(NodeCodec.encode(tree, limit: bytes.count) == bytes)
            #expect(bytes.count < 2 || NodeCodec.encode(tree, limit: bytes.count - 1) == nil)
        }
    }

    @Test(arguments: [1, 2] as [UInt64]) func damagedBytesAreNoTrap(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<2000 {
            var bytes = NodeCodec.encode(generator.tree(depth: 4))
            for _ in 0..<3 { bytes[generator.random.below(bytes.count)] = UInt8(generator.random.below(256)) }
            _ = decode(bytes)
            _ = decode(Array(bytes.prefix(generator.random.below(bytes.count))))
        }
        #expect(decode([UInt8](repeating: 7, count: 100_000)) == nil)
        #expect(decode([UInt8](repeating: 9, count: 100_000)) == nil)
        let nested = [UInt8](repeating: 0, count: 300_000).indices.map { [6, 1, 0][$0 % 3] as UInt8 }
        #expect(decode(nested) == nil)
    }

    @Test(arguments: [1, 2] as [UInt64]) func pathsComeBackAndNest(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let strange = ["", "\0", "\u{1}", "\u{1}\u{1}", "\u{2}", "a\0", "a\u{1}b"].map { Key($0) }
        func path() -> Path {
            var path = Path()
            for _ in 0..<generator.random.below(5) {
                path.append(generator.random.oneIn(3) ? generator.random.pick(strange) : generator.key())
            }
            return generator.random.oneIn(9) ? path.appending(.priority) : path
        }
        for _ in 0..<3000 {
            let (first, second) = (path(), path())
            let (one, other) = (RowPath.encode(first), RowPath.encode(second))
            #expect(one.withUnsafeBytes { RowPath.decode($0) } == first)
            #expect((one == other) == (first == second))
            guard !first.isRoot else { continue }
            let isBelow = !other.lexicographicallyPrecedes(one) && other.lexicographicallyPrecedes(RowPath.end(one))
            #expect(isBelow == first.contains(second), "\(first) \(second)")
        }
    }

    @Test(arguments: [1, 2] as [UInt64]) func writesComeBackAndDamageIsSeen(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for number in 0..<500 {
            let id = WriteID(rawValue: Int64(number) - 5)
            let path = generator.writablePath(maxDepth: 4)
            let content: PendingWrite.Content =
                generator.random.oneIn(2)
                ? .overwrite(number % 7 == 0 ? Self.leaves[number % Self.leaves.count] : generator.tree(depth: 3))
                : .merge(generator.changes(atMost: 4, below: .root))
            let write = PendingWrite(
                id: id, path: path, content: content,
                name: number % 3 == 0 ? nil : WriteName(writer: "writer-\(number)", number: 1 + Int64(number)))
            var bytes = WriteCodec.encode(write)
            let encoded = RowPath.encode(path)
            func decode(_ id: WriteID) -> PendingWrite? {
                bytes.withUnsafeBytes { bytes in
                    encoded.withUnsafeBytes { WriteCodec.decode(bytes, id: id, path: $0) }
                }
            }
            #expect(decode(id) == write)
            #expect(decode(WriteID(rawValue: 10_000)) == nil)
            bytes[generator.random.below(bytes.count)] ^= UInt8(1 << generator.random.below(8))
            #expect(decode(id) == nil)
        }
    }

    @Test func queriesComeBack() {
        let values: [Node] = [.null, .bool(true), .int(-5), .double(1.5), .string("é")]
        for index in [Query.Index.key, .value, .priority, .child(Path(splitting: "a/b"))] {
            for limit in [nil, Query.Limit.first(1), .last(1_000_000)] {
                for (number, value) in values.enumerated() {
                    let bound = Query.Bound(
                        value: .init(value), key: number % 2 == 0 ? Key("k") : nil, isInclusive: number % 3 == 0)
                    let query = Query(
                        index: index, start: number > 1 ? bound : nil, end: number < 3 ? bound : nil, limit: limit)
                    let bytes = QueryCodec.encode(query)
                    #expect(bytes.withUnsafeBytes { QueryCodec.decode($0) } == query)
                    #expect(bytes.dropLast().withUnsafeBytes { QueryCodec.decode($0) } == nil)
                }
            }
        }
    }
}
