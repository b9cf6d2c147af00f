import ClientCore
import Tree

extension FuzzTarget {
    /// The contents of a client's file, which must not cause a trap if they are damaged. The first byte selects the
    /// type of the rest.
    static let store = FuzzTarget(
        name: "store", corpus: storeCorpus,
        tokens: [[6, 2], [7, 0x81], [3, 0xFF, 0xFF], [4], [5, 0x80, 1], [9, 3], [1, 1, 0], [0x41, 0x61], [0]]
    ) { input, summary in
        guard let kind = input.first else { return nil }
        summary.note(Int(kind % 4))
        return input.dropFirst().withUnsafeBytes { bytes in
            switch kind % 4 {
            case 0: return storedNode(bytes, &summary)
            case 1: return storedPath(bytes, &summary)
            case 2: return storedQuery(bytes, &summary)
            default:
                var builder = RowTreeBuilder()
                builder.add(bytes, .int(1))
                builder.add(UnsafeRawBufferPointer(rebasing: bytes.dropLast()), .int(2))
                summary.note(builder.isSound ? 1 : 0)
                summary.noteSize(builder.finish().rowCount)
                return nil
            }
        }
    }

    private static var storeCorpus: [[UInt8]] {
        let nodes: [Node] = [
            .null, .int(-5), .double(1.5), .string("text"), Node.bool(true).withPriority(.string("p")),
            Node(children: [(Key("a"), .int(1000)), (Key("b"), .serverValue(ServerValue(.increment(.int(5)))))]),
        ]
        let query = Query(
            index: .child(Path(splitting: "a/b")), start: .init(value: .init(.int(5)), key: Key("k")), limit: .last(300)
        )
        return nodes.map { [0] + NodeCodec.encode($0) } + [
            [1] + RowPath.encode(Path(splitting: "a/b").appending(.priority)), [2] + QueryCodec.encode(query),
            [3] + RowPath.encode(Path(splitting: "a/b/c")),
        ]
    }

    private static func storedNode(_ bytes: UnsafeRawBufferPointer, _ summary: inout Summary) -> String? {
        guard let node = NodeCodec.decode(bytes) else { return nil }
        summary.noteSize(node.rowCount)
        let again = NodeCodec.encode(node)
        return again.withUnsafeBytes { NodeCodec.decode($0) } == node ? nil : "the written value reads as another"
    }

    private static func storedPath(_ bytes: UnsafeRawBufferPointer, _ summary: inout Summary) -> String? {
        guard let path = RowPath.decode(bytes) else { return nil }
        summary.noteSize(path.depth)
        let again = RowPath.encode(path)
        return again.withUnsafeBytes { RowPath.decode($0) } == path ? nil : "the written path reads as another"
    }

    private static func storedQuery(_ bytes: UnsafeRawBufferPointer, _ summary: inout Summary) -> String? {
        guard let query = QueryCodec.decode(bytes) else { return nil }
        summary.note(query.selectsAll ? 1 : 0)
        let again = QueryCodec.encode(query)
        return again.withUnsafeBytes { QueryCodec.decode($0) } == query ? nil : "the written query reads as another"
    }
}
