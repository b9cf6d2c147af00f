import Engine
import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Checks that long operations report progress, with numbers that add up to the total given at the start.
@Suite struct ProgressTests {
    /// Creates a namespace with an import of several parts and plain entries around it.
    private func loaded(_ url: PostgresURL) throws -> (LogConnection, NamespaceRecord) {
        let connection = try LogConnection(url)
        let record = try #require(try connection.namespace(named: "test", creating: true))
        try Self.script(
            "select pathmirror.set('test', '/a', '1'); select pathmirror.set('test', '/b', '2')", url)
        var settings = Importer.Settings()
        settings.bufferBytes = 1_000
        let importer = try Importer(connection, record, at: Path(splitting: "/big"), settings: settings)
        for number in 0..<500 { try importer.add(Array("/big/k\(number)".utf8), .bool(true)) }
        try importer.finish()
        try Self.script("select pathmirror.set('test', '/a', '3')", url)
        return (connection, try #require(try connection.namespace(named: "test")))
    }

    @Test func rebuildingCountsParts() throws {
        try withDatabase { url throws in
            let (connection, record) = try loaded(url)
            defer { connection.close() }
            let start = try PastTree.start(connection, record, for: record.head)
            let total = try PastTree.bulk(connection, from: start, to: record.head)
            #expect(total.parts > 1 && total.snapshotLeaves == 0)
            var seen: [BulkRead] = []
            var tree = try PastTree(connection, from: start) { seen.append($0) }
            try tree.advance(to: record.head)
            #expect(seen.map(\.parts) == Array(1...total.parts))
            #expect(seen.last?.partLeaves == 500 && seen.last?.work == total.work)
            #expect(tree.root.rowCount == 502)

            _ = try connection.takeSnapshot(record.id)
            let later = try PastTree.start(connection, record, for: record.head)
            let kept = try PastTree.bulk(connection, from: later, to: record.head)
            #expect(kept == BulkRead(snapshotLeaves: 502))
            seen = []
            _ = try PastTree(connection, from: later) { seen.append($0) }
            #expect(seen.last == kept)
        }
    }

    @Test func verifyingReportsItsProgress() throws {
        try withDatabase { url throws in
            let (connection, record) = try loaded(url)
            defer { connection.close() }
            _ = try connection.takeSnapshot(record.id)
            var entries: Int64 = 0
            var bulk = BulkRead()
            var compared: [String] = []
            var total: (entries: Int64, work: Int64, rows: Int64) = (0, 0, 0)
            let result = try Verification.run(connection, record) { progress in
                switch progress {
                case .begins(let count, let all, let rows): total = (count, all.work, rows)
                case .entries(let count): entries = count
                case .bulk(let read): bulk = read
                case .comparing(let name): compared.append(name)
                case .rows: break
                }
            }
            #expect(result.isClean && total.entries == 4 && entries == 4 && total.rows == 502)
            #expect(bulk.work == total.work && bulk.partLeaves == 500)
            #expect(compared == ["the snapshot at seq 4"])
            struct Stop: Error {}
            #expect(throws: Stop.self) { try Verification.run(connection, record) { _ in throw Stop() } }
            // The transaction has ended, and the connection is usable.
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    @Test func estimates() throws {
        try withDatabase { url throws in
            let (connection, record) = try loaded(url)
            defer { connection.close() }
            let path = Path(splitting: "/big")
            #expect(try connection.estimatedRows(record.id, below: .root) == nil)
            try Self.script("analyze pathmirror.node", url)
            #expect(try connection.estimatedRows(record.id, below: .root) == 502)
            let below = try #require(try connection.estimatedRows(record.id, below: path))
            #expect((400...502).contains(below))
        }
    }

    private static func script(_ sql: String, _ url: PostgresURL) throws {
        let connection = try PostgresConnection(url)
        defer { connection.close() }
        try connection.executeScript(sql)
    }
}
