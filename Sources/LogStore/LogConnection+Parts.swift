import Postgres
public import Tree

/// Reading a little of a tree that is not loaded. All of it belongs into `readingParts`, so that it fits together.
extension LogConnection {
    private static let readPlaceStatement = PostgresStatement(
        "read_place",
        """
        select path, rest, case when octet_length(value::text) <= $6 then value::text end
        from pathmirror.node where namespace_id = $1 and path in ($2, $3)
        union all
        (select path, rest, 'true' from pathmirror.node
            where namespace_id = $1 and path > $5 and path < $4
                and coalesce(split_part(path, '#', 1) || rest, path) not like '%/.priority'
            order by path limit 1)
        """, types: [.int8, .text, .text, .text, .text, .int8])

    /// What is stored at a path (of less than `maxPlainPathBytes`): nothing or a leaf as it is; of a branch its priority, and one leaf
    /// somewhere in it, which is true. Nil for a leaf of more than so many bytes. Costs three probes of an index, and a row for each priority
    /// before the first leaf.
    public func readPlace(
        _ namespace: Int64, _ path: Path, mostBytes: Int
    ) throws(LogStoreError) -> Node? {
        let text = path.isRoot ? "" : path.description
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        for bound in [path.description, text + "/.priority", text + "0", text + "/"] { parameters.appendText(bound) }
        parameters.appendInt8(Int64(mostBytes))
        do {
            let rows = try postgres.executePrepared(Self.readPlaceStatement, parameters)
            for row in 0..<rows.rowCount where rows.isNull(row, 2) { return nil }
            return try Self.tree(rows, below: text.utf8.count)
        } catch {
            throw LogStoreError(error)
        }
    }

    /// A value's rows, and one more than are wanted where there are more.
    private static let rowsOfPart = """
        (
            select path, rest, value from pathmirror.node where namespace_id = $1 and path = $2
            union all
            (select path, rest, value from pathmirror.node
                where namespace_id = $1 and path > $3 and path < $4 order by path limit $5 + 1)
        ) as part
        """
    /// As they are stored, which may be compressed: no large value is read for that.
    private static let countPartStatement = PostgresStatement(
        "count_part",
        "select count(*), coalesce(sum(pg_column_size(path) + pg_column_size(value)), 0)::bigint from \(rowsOfPart)",
        types: [.int8, .text, .text, .text, .int8])
    private static let measurePartStatement = PostgresStatement(
        "measure_part",
        """
        select coalesce(sum(octet_length(path) + coalesce(octet_length(rest), 0) + octet_length(value::text)), 0)::bigint
        from \(rowsOfPart)
        """, types: [.int8, .text, .text, .text, .int8])
    private static let readPartStatement = PostgresStatement(
        "read_part", "select path, rest, value::text from \(rowsOfPart)", types: [.int8, .text, .text, .text, .int8])

    /// The value at a path (of less than `maxPlainPathBytes`); nil where it has more than so many rows or bytes, of which none is
    /// read then.
    public func readPart(
        _ namespace: Int64, _ path: Path, mostRows: Int, mostBytes: Int
    ) throws(LogStoreError) -> Node? {
        let text = path.isRoot ? "" : path.description
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        for bound in [path.description, text + "/", text + "0"] { parameters.appendText(bound) }
        parameters.appendInt8(Int64(mostRows))
        do {
            let count = try postgres.executePrepared(Self.countPartStatement, parameters)
            guard try count.int64(0, 0) <= mostRows, try count.int64(0, 1) <= mostBytes else { return nil }
            let size = try postgres.executePrepared(Self.measurePartStatement, parameters)
            guard try size.int64(0, 0) <= mostBytes else { return nil }
            return try Self.tree(
                try postgres.executePrepared(Self.readPartStatement, parameters), below: text.utf8.count)
        } catch {
            throw LogStoreError(error)
        }
    }

    /// The value of rows at and below a path of so many bytes.
    private static func tree(_ rows: PostgresResult, below length: Int) throws -> Node {
        var builder = TreeBuilder()
        for row in 0..<rows.rowCount {
            let value = try rows.withBytes(row, 2) { try JSONParser.parse($0) } ?? .null
            if rows.isNull(row, 1) {
                rows.withBytes(row, 0) { builder.add(UnsafeRawBufferPointer(rebasing: $0[length...]), value) }
            } else {
                let full = StoredPath.joined(try rows.bytes(row, 0), rest: try rows.bytes(row, 1))
                builder.addUnordered(Path(splitting: String(decoding: full[length...], as: UTF8.self)), value)
            }
        }
        return builder.finish()
    }

    /// Runs `body` on one snapshot of the database, with the head and the entry that brought the rules (0 where none did); nil where
    /// there is no such namespace of that name.
    public func readingParts<Result>(
        of namespace: Int64, named name: String,
        _ body: (_ head: Int64, _ rules: Int64) throws(LogStoreError) -> Result
    ) throws(LogStoreError) -> Result? {
        do {
            return try inReadTransaction(Self.withoutCollecting) {
                // The name, too: after a restore the number may be another's.
                let row = try postgres.execute(
                    """
                    select head, coalesce((select max(seq) from pathmirror.rule where namespace_id = id), 0)
                    from pathmirror.namespace where id = $1 and name = $2
                    """, [.int8(namespace), .text(name)])
                guard row.rowCount == 1 else { return nil }
                return try body(try row.int64(0, 0), try row.int64(0, 1))
            }
        } catch {
            throw LogStoreError(error)
        }
    }

    /// Rows come out of the primary key in their order, at once: who has seen enough wants no more to be read.
    private static let withoutCollecting = "; set local enable_sort = off; set local enable_bitmapscan = off"
}
