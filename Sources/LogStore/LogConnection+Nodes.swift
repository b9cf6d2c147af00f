import Postgres
public import Tree

extension LogConnection {
    /// The tree, and the head and rules that belong to it, in one consistent read.
    public func loadTree(
        _ namespace: Int64
    ) throws(LogStoreError) -> (head: Int64, root: Node, rules: StoredRules?, batch: [UInt8]?) {
        guard let loaded = try loadTree(namespace, { _ in true }) else { preconditionFailure("nobody said no") }
        return loaded
    }

    /// How many rows are read between two calls of who wants to know about the progress.
    private static let rowsOfProgress = 8_192

    /// The same; `goesOn` is told every so often how many rows have been read, and may end it. Nil when it did.
    public func loadTree(
        _ namespace: Int64, _ goesOn: (_ rows: Int) -> Bool
    ) throws(LogStoreError) -> (head: Int64, root: Node, rules: StoredRules?, batch: [UInt8]?)? {
        struct Ended: Error {}
        do {
            return try readingPatiently {
                try inReadTransaction(Self.streaming) {
                    let row = try postgres.execute(
                        "select head, \(Self.headBatch) from pathmirror.namespace where id = $1", [.int8(namespace)])
                    guard row.rowCount == 1 else { throw LogStoreError.unknownNamespace("\(namespace)") }
                    let head = try row.int64(0, 0)
                    var batch = try Self.bytes(row, 0, 1)
                    if batch == nil { batch = try history(namespace, at: head)?.batch }
                    var builder = TreeBuilder()
                    var rows = 0
                    try forEachNode(namespace) { path, value, isLong in
                        rows += 1
                        if rows.isMultiple(of: Self.rowsOfProgress), !goesOn(rows) { throw Ended() }
                        if isLong {
                            builder.addUnordered(Path(splitting: String(decoding: path, as: UTF8.self)), value)
                        } else {
                            builder.add(path, value)
                        }
                    }
                    return (head, builder.finish(), try currentRules(namespace), batch)
                }
            }
        } catch is Ended {
            return nil
        } catch {
            throw LogStoreError(error)
        }
    }

    /// Has rows come out of the primary key in their order, at once. Without statistics of the table, as after an import,
    /// PostgreSQL would take it for small, collect all rows first, and sort them on disk: two to four times the work.
    private static let streaming = "; set local enable_sort = off; set local enable_bitmapscan = off"

    /// Runs `body` on one snapshot of the database.
    ///
    /// - Parameter settings: statements that belong to the beginning of the transaction.
    public func inReadTransaction<Result>(_ settings: String = "", _ body: () throws -> Result) throws -> Result {
        try postgres.executeScript("begin isolation level repeatable read read only" + settings)
        do {
            let result = try body()
            try postgres.executeScript("commit")
            return result
        } catch {
            if postgres.isOpen { try? postgres.executeScript("rollback") }
            throw error
        }
    }

    /// Streams all stored rows of a namespace in the order of their path's bytes; long paths (see `StoredPath`) come out
    /// of order, and are marked. The path's bytes are valid during the call only.
    public func forEachNode(
        _ namespace: Int64, _ body: (_ path: UnsafeRawBufferPointer, _ value: Node, _ isLong: Bool) throws -> Void
    ) throws {
        // COPY takes no parameters; the namespace is a number.
        let sql = """
            copy (select path, rest, value from pathmirror.node where namespace_id = \(namespace) order by path)
            to stdout (format binary)
            """
        try postgres.copyOutRows(sql) { row in
            let value = try row.withBytes(2) { try JSONParser.parse($0) } ?? .null
            if row.isNull(1) {
                try row.withBytes(0) { try body($0, value, false) }
                return
            }
            let path = StoredPath.joined(try row.bytes(0), rest: try row.bytes(1))
            try path.withUnsafeBytes { try body($0, value, true) }
        }
    }

    /// Streams the stored rows at and below a path as texts, each branch's rows together, and a leaf's priority right
    /// behind the leaf.
    func forEachNode(
        _ namespace: Int64, atAndBelow path: Path, _ body: (_ path: [UInt8], _ value: [UInt8]) throws -> Void
    ) throws {
        // Slashes sort below everything that keys may hold: then what begins with a path follows it at once.
        let order = "order by replace(pathmirror.full_path(path, rest), '/', chr(1)) collate \"C\""
        let columns =
            "select pathmirror.full_path(path, rest), value::text from pathmirror.node where namespace_id = $1"
        if path.isRoot {
            return try rows(columns + " " + order, [.int8(namespace)], body)
        }
        let text = path.description
        let below = text + "/"
        if below.utf8.count <= StoredPath.maxPlainBytes {
            let condition = " and (path = $2 or (path >= $3 and path < $4)) "
            return try rows(
                columns + condition + order,
                [.int8(namespace), .text(text), .text(below), .text(text + "0")], body)
        }
        let full = "pathmirror.full_path(path, rest)"
        try rows(
            columns + " and (\(full) = $2 or starts_with(\(full), $3)) " + order,
            [.int8(namespace), .text(text), .text(below)], body)
    }

    private func rows(
        _ sql: String, _ parameters: PostgresParameters, _ body: (_ path: [UInt8], _ value: [UInt8]) throws -> Void
    ) throws {
        try postgres.forEachRow(sql, parameters) { row in try body(try row.bytes(0), try row.bytes(1)) }
    }
}
