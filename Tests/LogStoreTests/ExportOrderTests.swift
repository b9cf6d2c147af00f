import Postgres
import TestSupport
import Testing
import Tree

@testable import LogStore

/// Tests of the bytes of an export, for each way of sorting its rows.
@Suite struct ExportOrderTests {
    /// All rows are sorted in memory, PostgreSQL sorts from the second held row on, or each sorts a part.
    private static let bounds = [8 << 20, 1, 500]

    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 8] as [UInt64])
    func bytesAreThoseOfTheTree(seed: UInt64) throws {
        try withSession { connection in
            var random = TreeGenerator(seed: seed)
            let record = try connection.make()
            var writer = BatchWriter(record)
            for _ in 0..<12 {
                _ = try connection.commit(
                    writer.batch([[Change(path: random.path(maxDepth: 2), value: random.tree(depth: 4))]]))
            }
            let paths = [.root] + (0..<6).map { _ in random.path(maxDepth: 3) }
            for path in paths {
                let expected = Self.text(writer.root[path]) + "\n"
                for bound in Self.bounds {
                    let text = try export(connection, record, at: path, bound)
                    #expect(text == expected, "\(path), \(bound) bytes held")
                }
            }
        }
    }

    @Test func longPathsAmongKeysThatContinueBelowTheSlash() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            let long = String(repeating: "é", count: 380)
            for text in ["a/x", "a-b/c", "a", "z/\(long)/\(long)/\(long)/1", "z/\(long)/\(long)/\(long) /2", "zz"] {
                let value = Node.int(Int64(text.utf8.count)).withPriority(.int(1))
                _ = try connection.commit(writer.batch([[Change(path: Path(splitting: text + "/v"), value: value)]]))
            }
            for bound in Self.bounds {
                #expect(try export(connection, record, at: .root, bound) == Self.text(writer.root) + "\n")
            }
        }
    }

    /// Checks that a leaf's priority is exported with the leaf, wherever the text is divided for sending.
    @Test func manyLeavesWithPriorities() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            let children = (0..<6_000).map { number in
                (
                    Key("k\(number)\(number.isMultiple(of: 3) ? "-x" : "")"),
                    Node.string(String(repeating: "t", count: 90)).withPriority(.int(Int64(number)))
                )
            }
            _ = try connection.commit(writer.batch([[Change(path: .root, value: Node(children: children))]]))
            let text = try export(connection, record, at: .root, 8 << 20)
            #expect(text == Self.text(writer.root) + "\n")
        }
    }

    private func export(
        _ connection: LogConnection, _ record: NamespaceRecord, at path: Path, _ bound: Int
    ) throws -> String {
        var text: [UInt8] = []
        let order = BranchOrder(maxBytes: bound)
        try Exporter(connection, record, at: path, order: order) { text += $0 }.run()
        return String(decoding: text, as: UTF8.self)
    }

    /// The expected text, built from the tree key by key in byte order.
    private static func text(_ node: Node) -> String {
        guard case .branch(let branch) = node else {
            return String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
        }
        var members = branch.children.map { ($0.key.text, text($0.node)) }
        if !branch.priority.isNull { members.append((".priority", text(branch.priority))) }
        members.sort { $0.0.utf8.lexicographicallyPrecedes($1.0.utf8) }
        let texts = members.map { key, value in
            String(decoding: JSONWriter.encode(.string(key), form: .plain), as: UTF8.self) + ":" + value
        }
        return "{" + texts.joined(separator: ",\n") + "}"
    }
}
