import Postgres
public import Tree

/// Reading a little of a tree that is not loaded. All of it needs a snapshot (`beginSnapshot`) where it is to fit together.
extension LogConnection {
    private static let readPlaceStatement = PostgresStatement(
        "read_place",
        """
        select path, rest, value::text from pathmirror.node where namespace_id = $1 and path in ($2, $3)
        union all
        (select path, rest, value::text from pathmirror.node
            where namespace_id = $1 and path >= $5 and path < $4
                and coalesce(split_part(path, '#', 1) || rest, path) not like '%/.priority'
            order by path limit 1)
        """, types: [.int8, .text, .text, .text, .text])

    /// What is stored at a path (of less than `maxPlainPathBytes`): nothing or a leaf as it is; of a branch its priority, and one leaf
    /// somewhere in it. Costs three probes of an index, whatever there is.
    public func readPlace(_ namespace: Int64, _ path: Path) throws(LogStoreError) -> Node {
        let text = path.isRoot ? "" : path.description
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        for bound in [path.description, text + "/.priority", text + "0", text + "/"] { parameters.appendText(bound) }
        do {
            let rows = try postgres.executePrepared(Self.readPlaceStatement, parameters)
            var builder = TreeBuilder()
            for row in 0..<rows.rowCount {
                let value = try rows.withBytes(row, 2) { try JSONParser.parse($0) } ?? .null
                let full = StoredPath.joined(
                    try rows.bytes(row, 0), rest: rows.isNull(row, 1) ? [] : try rows.bytes(row, 1))
                builder.addUnordered(
                    Path(splitting: String(decoding: full[text.utf8.count...], as: UTF8.self)), value)
            }
            return builder.finish()
        } catch {
            throw LogStoreError(error)
        }
    }

    /// The value at a path (of less than `maxPlainPathBytes`); nil where it has more than so many rows or bytes.
    public func readPart(
        _ namespace: Int64, _ path: Path, mostRows: Int, mostBytes: Int
    ) throws(LogStoreError) -> Node? {
        struct TooLarge: Error {}
        let length = path.isRoot ? 0 : path.description.utf8.count
        do {
            var builder = TreeBuilder()
            var (rows, bytes) = (0, 0)
            try forEachNode(namespace, within: path) { full, value, isLong in
                rows += 1
                bytes += full.count + value.count
                guard rows <= mostRows, bytes <= mostBytes else { throw TooLarge() }
                let text = UnsafeRawBufferPointer(rebasing: full[length...])
                if isLong {
                    builder.addUnordered(
                        Path(splitting: String(decoding: text, as: UTF8.self)), try JSONParser.parse(value))
                } else {
                    builder.add(text, try JSONParser.parse(value))
                }
            }
            return builder.finish()
        } catch is TooLarge {
            return nil
        } catch {
            throw LogStoreError(error)
        }
    }

    /// Streams the rows at and below a path, the path's own first, the others in the order of their path's bytes but for long ones.
    private func forEachNode(
        _ namespace: Int64, within path: Path,
        _ body: (_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ isLong: Bool) throws -> Void
    ) throws {
        // COPY takes no parameters: the bounds travel as settings of the transaction, the namespace is a number.
        let text = path.isRoot ? "" : path.description
        _ = try postgres.execute(
            """
            select set_config('pathmirror.self', $1, true), set_config('pathmirror.low', $2, true),
                set_config('pathmirror.high', $3, true)
            """, [.text(path.description), .text(text + "/"), .text(text + "0")])
        let columns = "select path, rest, value from pathmirror.node where namespace_id = \(namespace)"
        let sql = """
            copy (
                \(columns) and path = current_setting('pathmirror.self')
                union all
                (\(columns) and path >= current_setting('pathmirror.low')
                    and path < current_setting('pathmirror.high') order by path)
            ) to stdout (format binary)
            """
        try postgres.copyOutRows(sql) { row in
            try row.withBytes(2) { value in
                guard !row.isNull(1) else { return try row.withBytes(0) { try body($0, value, false) } }
                let path = StoredPath.joined(try row.bytes(0), rest: try row.bytes(1))
                try path.withUnsafeBytes { try body($0, value, true) }
            }
        }
    }

    /// Runs `body` on one snapshot of the database, with the head and the rules that belong to it; nil where there is no such namespace.
    public func readingParts<Result>(
        of namespace: Int64, _ body: (_ head: Int64, _ rules: StoredRules?) throws(LogStoreError) -> Result
    ) throws(LogStoreError) -> Result? {
        do {
            return try inReadTransaction(Self.withoutCollecting) {
                let row = try postgres.execute(
                    "select head from pathmirror.namespace where id = $1", [.int8(namespace)])
                guard row.rowCount == 1 else { return nil }
                return try body(try row.int64(0, 0), try currentRules(namespace))
            }
        } catch {
            throw LogStoreError(error)
        }
    }

    /// Rows come out of the primary key in their order, at once: who has seen enough wants no more to be read.
    private static let withoutCollecting = "; set local enable_sort = off; set local enable_bitmapscan = off"
}
