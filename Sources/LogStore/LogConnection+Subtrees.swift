import Postgres
public import Tree

extension LogConnection {
    /// The entry that last wrote a row. A negative version is the number of a large write.
    private static let versionColumn = """
        case when version >= 0 then version
            else (select seq from pathmirror.large_write where id = -version) end
        """

    private static let readSubtreesStatement = PostgresStatement(
        "read_subtrees",
        """
        select n, row.path, row.rest, row.value::text, \(LogConnection.versionColumn)
        from unnest($2, $3, $4) with ordinality as wanted (at, low, high, n)
        cross join lateral (
            select path, rest, value, version from pathmirror.node where namespace_id = $1 and path = wanted.at
            union all
            select path, rest, value, version from pathmirror.node
            where namespace_id = $1 and path >= wanted.low and path < wanted.high
        ) as row
        order by n, row.path
        """, types: [.int8, .textArray, .textArray, .textArray])

    /// Begins a snapshot of the database from which this session reads until `endSnapshot`. Returns the namespace in
    /// the snapshot, or nil if there is none.
    public func beginSnapshot(_ namespace: Int64) throws(LogStoreError) -> NamespaceRecord? {
        try translated { () throws(PostgresError) in
            try postgres.executeScript("begin isolation level repeatable read read only")
        }
        do throws(LogStoreError) {
            return try self.namespace(id: namespace)
        } catch {
            endSnapshot()
            throw error
        }
    }

    /// Ends the snapshot, if there is one.
    public func endSnapshot() {
        if postgres.isOpen, postgres.isInTransaction { try? postgres.executeScript("rollback") }
    }

    /// Reads the values at the paths, each with the newest version among its rows (0 without rows), in the order of the
    /// paths. The version of a path of about 2,000 bytes or more is always 0.
    public func readSubtrees(
        _ namespace: Int64, _ paths: [Path]
    ) throws(LogStoreError) -> [(value: Node, version: Int64)] {
        var found: [(value: Node, version: Int64)] = Array(repeating: (.null, 0), count: paths.count)
        var at = PostgresArray(of: .text)
        var low = PostgresArray(of: .text)
        var high = PostgresArray(of: .text)
        var asked: [Int] = []
        for (index, path) in paths.enumerated() {
            let text = path.isRoot ? "" : path.description
            guard text.utf8.count + 1 <= StoredPath.maxPlainBytes else {
                found[index] = try readLongSubtree(namespace, path)
                continue
            }
            asked.append(index)
            at.appendText(path.description)
            low.appendText(text + "/")
            high.appendText(text + "0")
        }
        guard !asked.isEmpty else { return found }
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        parameters.append(at)
        parameters.append(low)
        parameters.append(high)
        do {
            let rows = try postgres.executePrepared(Self.readSubtreesStatement, parameters)
            var row = 0
            while row < rows.rowCount {
                let number = try rows.int64(row, 0)
                let index = asked[Int(number) - 1]
                found[index] = try Self.subtree(rows, &row, number, paths[index])
            }
        } catch {
            throw LogStoreError(error)
        }
        return found
    }

    /// Builds the value from the rows of one path, and moves `row` after them.
    private static func subtree(
        _ rows: PostgresResult, _ row: inout Int, _ number: Int64, _ path: Path
    ) throws -> (value: Node, version: Int64) {
        let length = path.isRoot ? 0 : path.description.utf8.count
        var builder = TreeBuilder()
        var version: Int64 = 0
        while row < rows.rowCount, try rows.int64(row, 0) == number {
            let value = try rows.withBytes(row, 3) { try JSONParser.parse($0) } ?? .null
            version = max(version, try rows.int64(row, 4))
            if rows.isNull(row, 2) {
                rows.withBytes(row, 1) { bytes in
                    builder.add(UnsafeRawBufferPointer(rebasing: bytes[length...]), value)
                }
            } else {
                let full = StoredPath.joined(try rows.bytes(row, 1), rest: try rows.bytes(row, 2))
                builder.addUnordered(Path(splitting: String(decoding: full[length...], as: UTF8.self)), value)
            }
            row += 1
        }
        return (builder.finish(), version)
    }

    private func readLongSubtree(
        _ namespace: Int64, _ path: Path
    ) throws(LogStoreError) -> (value: Node, version: Int64) {
        let length = path.description.utf8.count
        do {
            var builder = TreeBuilder()
            try forEachNode(namespace, atAndBelow: path) { full, value in
                let relative = Path(splitting: String(decoding: full[length...], as: UTF8.self))
                builder.addUnordered(relative, try JSONParser.parse(value))
            }
            // The version is not worth another query.
            return (builder.finish(), 0)
        } catch {
            throw LogStoreError(error)
        }
    }

    /// The maximum length of paths whose rows come in path order.
    public static let maxPlainPathBytes = StoredPath.maxPlainBytes

    /// A row of the tree's table, valid only during the call.
    public struct StoredRow: ~Copyable {
        /// The whole path.
        public let path: UnsafeRawBufferPointer
        /// The value as JSON text.
        public let value: UnsafeRawBufferPointer
        /// The entry that last wrote the row.
        public let version: Int64
        /// Whether the path is long. Rows with long paths come out of order.
        public let isLong: Bool
    }

    /// Streams the rows below a path of at most 1,900 bytes in byte order of their paths. Requires an open transaction,
    /// and the session can do nothing else meanwhile.
    public func forEachRow(
        _ namespace: Int64, below path: Path, _ body: (borrowing StoredRow) throws -> Void
    ) throws {
        // COPY takes no parameters: the bounds are passed as settings of the transaction. The namespace is a number.
        let text = path.isRoot ? "" : path.description
        _ = try postgres.execute(
            "select set_config('pathmirror.low', $1, true), set_config('pathmirror.high', $2, true)",
            [.text(text + "/"), .text(text + "0")])
        let sql = """
            copy (
                select path, rest, value, \(Self.versionColumn) from pathmirror.node
                where namespace_id = \(namespace) and path >= current_setting('pathmirror.low')
                    and path < current_setting('pathmirror.high') order by path
            ) to stdout (format binary)
            """
        try postgres.copyOutRows(sql) { row in
            let version = try row.int64(3)
            if row.isNull(1) {
                try row.withBytes(0) { path in
                    try row.withBytes(2) { value in
                        try body(StoredRow(path: path, value: value, version: version, isLong: false))
                    }
                }
                return
            }
            let full = StoredPath.joined(try row.bytes(0), rest: try row.bytes(1))
            try full.withUnsafeBytes { path in
                try row.withBytes(2) { value in
                    try body(StoredRow(path: path, value: value, version: version, isLong: true))
                }
            }
        }
    }

    /// Returns the commit times of entries, in milliseconds since 1970. Entries that are not in the log any more are
    /// left out.
    public func commitTimes(_ namespace: Int64, _ seqs: [Int64]) throws(LogStoreError) -> [Int64: Int64] {
        var wanted = PostgresArray(of: .int8)
        for seq in seqs { wanted.appendInt8(seq) }
        return try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select seq, (extract(epoch from committed_at) * 1000)::bigint from pathmirror.log
                where namespace_id = $1 and seq = any($2)
                """, [.int8(namespace), .array(wanted)])
            var times: [Int64: Int64] = [:]
            for row in 0..<rows.rowCount { times[try rows.int64(row, 0)] = try rows.int64(row, 1) }
            return times
        }
    }
}
