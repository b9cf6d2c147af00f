import Engine
import LogStore
import Postgres
import Rules
import TestSupport
import Testing
import Tree

/// Checks that writes from SQL change rows as a gateway's writes do.
@Suite struct ReplaySQLWriteTests {
    /// Checks that random writes, made in one namespace by a gateway and in another by SQL, give the same rows and
    /// versions, the same refusals and two clean logs. Writes use separate transactions, or ten share one, in which a
    /// refused write is rolled back alone.
    @Test(arguments: [1, 2, 3, 4] as [UInt64], [false, true])
    func sameRowsAsAGateway(seed: UInt64, inTransactions: Bool) throws {
        try withEngines { url, engines in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let live = try engines[0].namespace("engine")
            let byEngine = try #require(try connection.namespace(named: "engine"))
            let bySQL = try #require(try connection.namespace(named: "sql", creating: true))
            var writes = SQLWriteGenerator(seed: seed)
            var refusals = 0
            for step in 0..<250 {
                let write = try writes.next()
                let outcome = try #require(live.write(write.write))
                var refusal: String?
                if inTransactions {
                    try connection.sql.executeScript(step % 10 == 0 ? "begin; savepoint s" : "savepoint s")
                }
                do {
                    _ = try connection.sql.execute(write.sql, write.parameters)
                } catch {
                    refusal = "\(error)"
                    if inTransactions { try connection.sql.executeScript("rollback to s") }
                }
                if inTransactions, step % 10 == 9 { try connection.sql.executeScript("commit") }
                switch outcome {
                case .committed: #expect(refusal == nil, "step \(step): \(write.description)")
                case .refused:
                    refusals += 1
                    #expect(refusal != nil, "step \(step): \(write.description)")
                default: Issue.record("step \(step): \(outcome)")
                }
                if step % 10 == 9 || step == 249 {
                    let expected = try StoredRow.all(connection, byEngine.id)
                    let found = try StoredRow.all(connection, bySQL.id)
                    let isSame = expected == found
                    try #require(
                        isSame, "step \(step), seed \(seed): \(write.description): \(found.difference(from: expected))")
                    let export = try connection.sql.execute("select pathmirror.get_json('sql')::text")
                    let root = live.snapshot.root
                    let read = export.isNull(0, 0) ? Node.null : try JSONParser.parse(try export.bytes(0, 0)).node
                    try #require(read == root)
                    let plain = try connection.sql.execute("select pathmirror.get('sql', '/', 'plain')::text")
                    if !root.isNull {
                        let wanted = try connection.sql.execute(
                            "select $1::jsonb = $2::jsonb",
                            [.text(try plain.string(0, 0)), .textBytes(JSONWriter.encode(root, form: .plain))])
                        try #require(try wanted.bool(0, 0))
                    }
                }
            }
            #expect(refusals > 0, "the generator refuses nothing: it proves less than it should")
            for record in [byEngine, bySQL] {
                let result = try Verification.run(connection, record)
                #expect(result.isClean, "\(record.name): \(result.problems) \(result.differences.prefix(3))")
            }
        }
    }

    /// Checks that a gateway follows writes from SQL, and SQL follows writes of a gateway.
    @Test func gatewaysFollow() throws {
        try withEngines { url, engines in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let live = try engines[0].namespace("test")
            _ = live.write(.set("/a", .int(1)))
            let seq = try connection.sql.execute("select pathmirror.set('test', '/b', '[1, null, 3]')").int64(0, 0)
            #expect(seq == 2)
            #expect(live.waitFor(seq))
            #expect(live.snapshot.root[Path(splitting: "/b/2")] == .int(3))
            #expect(live.write(.set("/b/2", .null))?.committedSeq == 3)
            let read = try connection.sql.execute("select pathmirror.get('test', '/b', 'plain')::text")
            #expect(try read.string(0, 0) == "[1]")
        }
    }

    /// Checks that a rollback leaves no gap, and that writers in many sessions produce one order.
    @Test func seqsAreGapless() throws {
        try withSession { connection in
            let record = try #require(try connection.namespace(named: "test", creating: true))
            try connection.sql.executeScript(
                "begin; select pathmirror.set('test', '/a', '1'); select pathmirror.set('test', '/b', '1'); rollback")
            _ = try connection.sql.execute("select pathmirror.set('test', '/c', '1')")
            try connection.sql.executeScript(
                "begin; select pathmirror.set('test', '/d', '1'); select pathmirror.remove('test', '/c'); commit")
            let result = try Verification.run(connection, record)
            #expect(result.isClean)
            #expect(result.head == 3)
            let batches = try connection.sql.execute(
                "select count(distinct batch_id) from pathmirror.log"
            ).int64(0, 0)
            #expect(batches == 2, "one batch a transaction")
        }
    }
}

/// A row of `pathmirror.node`, with its value as in the tree.
struct StoredRow: Equatable {
    let key: String
    let rest: String?
    let value: Node
    let version: Int64

    static func all(_ connection: LogConnection, _ namespace: Int64, versions: Bool = true) throws -> [StoredRow] {
        let rows = try connection.sql.execute(
            "select path, rest, value::text, version from pathmirror.node where namespace_id = $1 order by path",
            [.int8(namespace)])
        return try (0..<rows.rowCount).map { row in
            StoredRow(
                key: try rows.string(row, 0), rest: rows.isNull(row, 1) ? nil : try rows.string(row, 1),
                value: try JSONParser.parse(try rows.bytes(row, 2)).node,
                version: versions ? try rows.int64(row, 3) : 0)
        }
    }
}

/// Generates the same random write for a gateway and for SQL. Excludes values that jsonb cannot hold (U+0000, −0,
/// doubles that are read as integers), and orders an update's paths as jsonb does.
struct SQLWriteGenerator {
    struct Pair {
        let write: Write
        let sql: String
        let parameters: PostgresParameters
        let description: String
    }

    private var tree: TreeGenerator
    private static let long = Path(
        (0..<3).map { Key(String(repeating: "é€😀x", count: 70) + "\($0)") })

    init(seed: UInt64) { tree = TreeGenerator(seed: seed) }

    mutating func next() throws -> Pair {
        let base = tree.random.oneIn(8) ? Self.long : .root
        switch tree.random.below(10) {
        case 0, 1, 2:
            let path = base.appending(tree.path(maxDepth: 1))
            let changes = try tree.changes(atMost: 4, below: path).map {
                Change(path: $0.path, value: try Self.storable($0.value))
            }
            .sorted { Self.key($0, path).isBefore(Self.key($1, path)) }
            return pair(
                "update", path, Self.object(changes, below: path),
                Write(.update(base: path, changes), operation: .update, byteCount: 64, auth: .admin))
        case 3: return set(base.appending(tree.path(maxDepth: 3)), .null)
        case 4:
            let delta = Node.serverValue(ServerValue(.increment(.int(Int64(tree.random.below(9) - 4)))))
            return set(base.appending(tree.path(maxDepth: 3)), delta)
        case 5, 6:
            let path = base.appending(tree.path(maxDepth: 2)).appending(.priority)
            return set(path, tree.random.oneIn(5) ? .null : try Self.storable(tree.priority()))
        default: return set(base.appending(tree.path(maxDepth: 4)), try Self.storable(tree.tree(depth: 3)))
        }
    }

    private func set(_ path: Path, _ value: Node) -> Pair {
        let isServerValue = if case .serverValue = value { true } else { false }
        return pair(
            "set", path, JSONWriter.encode(value, form: .export),
            Write(
                .set(path, value), operation: value.isNull ? .remove : .set, hasServerValue: isServerValue,
                byteCount: 64,
                auth: .admin))
    }

    private func pair(_ function: String, _ path: Path, _ json: [UInt8], _ write: Write) -> Pair {
        Pair(
            write: write, sql: "select pathmirror.\(function)('sql', $1, $2)",
            parameters: [.text(path.description), .jsonb(json)],
            description:
                "\(function) \(path.description.prefix(60)) \(String(decoding: json.prefix(300), as: UTF8.self))")
    }

    private static func storable(_ node: Node) throws -> Node {
        let text = String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
        return try JSONParser.parse(
            text.replacing("-0.0", with: "0").replacing("\\u0000", with: "").replacing(
                "9.007199254740994e+15", with: "1.5e300"))
    }

    private static func key(_ change: Change, _ base: Path) -> String {
        // By bytes, because a slash and a combining mark at the beginning of a key form one character.
        String(Substring(change.path.relative(to: base).description.utf8.dropFirst()))
    }

    private static func object(_ changes: [Change], below base: Path) -> [UInt8] {
        var writer = JSONWriter(form: .export)
        writer.beginObject()
        for (index, change) in changes.enumerated() {
            writer.writeKey(key(change, base), isFirst: index == 0)
            writer.write(change.value)
        }
        writer.endObject()
        return writer.bytes
    }
}

extension String {
    /// Compares keys in jsonb's order: shorter keys first, then by bytes.
    fileprivate func isBefore(_ other: String) -> Bool {
        utf8.count == other.utf8.count ? utf8.lexicographicallyPrecedes(other.utf8) : utf8.count < other.utf8.count
    }
}
