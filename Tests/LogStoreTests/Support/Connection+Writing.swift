import LogStore
import Postgres
import TestSupport
import Testing
import Tree

extension LogConnection {
    /// Creates a namespace for the test.
    func make(_ name: String = "test") throws -> NamespaceRecord {
        try #require(try namespace(named: name, creating: true))
    }
}

/// Creates batches like the engine, and maintains the resulting tree.
struct BatchWriter {
    let namespace: Int64
    var root = Node.null
    var head: Int64 = 0

    init(_ record: NamespaceRecord) { namespace = record.id }

    init(namespace: Int64) { self.namespace = namespace }

    /// Returns the batch of several writes, each a list of changes, and applies it to the writer's tree.
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

/// Returns a path of keys of 768 bytes each, some with multibyte characters. The last digits of the last key depend on
/// `variant`.
func longPath(_ variant: Int, depth: Int = 32) -> Path {
    Path(
        (0..<depth).map { level in
            let filler = level % 2 == 0 ? String(repeating: "k", count: 760) : String(repeating: "é", count: 380)
            let mark = level == depth - 1 ? variant : level
            return Key(filler + String(10_000_000 + mark))
        })
}

/// Returns a count from the database.
func count(_ connection: LogConnection, _ sql: String) throws -> Int64 {
    try connection.sql.execute(sql).int64(0, 0)
}
