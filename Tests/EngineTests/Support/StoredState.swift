import Engine
import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// The database's state of a namespace, with checks of the invariants.
struct StoredState {
    let head: Int64
    let root: Node
    let entries: [Entry]

    init(_ url: PostgresURL, _ name: String = "test") throws {
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(named: name))
        let loaded = try connection.loadTree(record.id)
        head = loaded.head
        root = loaded.root
        var entries: [Entry] = []
        while true {
            let page = try connection.read(record.id, after: entries.last?.seq ?? 0)
            if page.isEmpty { break }
            for entry in page.map(\.entry) {
                var changes = entry.changes
                if entry.isBulk {
                    try connection.forEachPart(record.id, of: entry.seq) { changes.append(contentsOf: $0) }
                }
                entries.append(
                    Entry(
                        seq: entry.seq, committedAt: entry.committedAt, operation: entry.operation, path: entry.path,
                        changes: ApplicationOrder.sorted(changes)))
            }
        }
        self.entries = entries
    }

    /// The tree that results from the log.
    var replayed: Node {
        entries.reduce(Node.null) { root, entry in
            entry.changes.reduce(root) { $0.replacing($1.path, with: $1.value) }
        }
    }

    /// Checks that the log is gapless from 1 to the head, in order, and that the stored tree is the log's.
    func check(sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(entries.map(\.seq) == Array(0...head).filter { $0 > 0 }, sourceLocation: sourceLocation)
        #expect(
            zip(entries, entries.dropFirst()).allSatisfy { $0.committedAt <= $1.committedAt }, "times follow seqs",
            sourceLocation: sourceLocation)
        #expect(replayed == root, "the log makes the stored tree", sourceLocation: sourceLocation)
    }

    /// Checks that every engine has reached the head, with the stored tree.
    func check(
        equals namespaces: [LiveNamespace], sourceLocation: SourceLocation = #_sourceLocation
    ) {
        check(sourceLocation: sourceLocation)
        for namespace in namespaces {
            #expect(namespace.waitFor(head), "the engine has come to the head", sourceLocation: sourceLocation)
            let snapshot = namespace.snapshot
            #expect(snapshot.seq == head, sourceLocation: sourceLocation)
            #expect(snapshot.root == root, "the engine's tree is the stored one", sourceLocation: sourceLocation)
        }
    }
}

/// Runs `pathmirror log verify` on the test's namespace.
func verify(_ url: PostgresURL, _ name: String = "test") throws -> Verification {
    let connection = try LogConnection(url)
    defer { connection.close() }
    let record = try #require(try connection.namespace(named: name))
    return try Verification.run(connection, record)
}
