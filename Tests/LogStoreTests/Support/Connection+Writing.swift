import LogStore
import Postgres
import TestSupport
import Testing
import Tree

extension LogConnection {
    /// A namespace of the test's own.
    func make(_ name: String = "test") throws -> NamespaceRecord {
        try #require(try namespace(named: name, creating: true))
    }
}

/// Makes batches the way the engine does, and keeps the tree that they lead to.
struct BatchWriter {
    let namespace: Int64
    var root = Node.null
    var head: Int64 = 0

    init(_ record: NamespaceRecord) { namespace = record.id }

    init(namespace: Int64) { self.namespace = namespace }

    /// The batch of several writes, each a list of changes; the writer's tree has them then.
    mutating func batch(_ writes: [[Change]]) -> Batch {
        var records: [Batch.Record] = []
        var rows = RowDiff(RowChanges())
        let expected = head
        for changes in writes {
            head += 1
            rows.sink.seq = head
            for change in changes {
                let next = root.replacing(change.path, with: change.value)
                rows.compare(root, next, changedAt: change.path)
                root = next
            }
            records.append(
                Batch.Record(
                    operation: .update, path: changes.first?.path ?? .root, changes: ChangeCodec.encode(changes)))
        }
        return Batch(
            namespace: namespace, expectedHead: expected, id: Batch.makeID(), records: records, rows: rows.sink)
    }

    mutating func set(_ path: String, _ value: Node) -> Batch {
        batch([[Change(path: Path(splitting: path), value: value)]])
    }
}

/// 32 keys of 768 bytes each, of which the last few differ by `variant`; some of more than one byte a character.
func longPath(_ variant: Int, depth: Int = 32) -> Path {
    Path(
        (0..<depth).map { level in
            let filler = level % 2 == 0 ? String(repeating: "k", count: 760) : String(repeating: "é", count: 380)
            let mark = level == depth - 1 ? variant : level
            return Key(filler + String(10_000_000 + mark))
        })
}

/// A number that the database counts.
func count(_ connection: LogConnection, _ sql: String) throws -> Int64 {
    try connection.sql.execute(sql).int64(0, 0)
}
