import Postgres
public import Tree

extension LogConnection {
    /// Reads the tree with its head and rules, in one consistent snapshot.
    public func loadTree(_ namespace: Int64) throws(LogStoreError) -> LoadedTree {
        guard let loaded = try loadTree(namespace, { _ in .proceed }) else { throw .stopped }
        return loaded
    }

    /// The numbers of rows and of bytes of values between two progress reports.
    private static let rowsOfProgress = 8_192
    private static let bytesOfProgress = 4 << 20

    /// A namespace's tree and rules at its head.
    public struct LoadedTree: Sendable {
        public let head: Int64
        public let root: Node
        public let rules: StoredRules?
        /// The batch of the entry at the head, or nil if there is none.
        public let batch: [UInt8]?
        /// Whether the tree was paged out as far as possible.
        public let isInPages: Bool
    }

    /// The progress of reading a tree.
    public struct LoadProgress: Sendable {
        /// The number of rows read.
        public let rows: Int
        /// The approximate memory of the rows read, in bytes, without pages on disk.
        public let heapBytes: Int
        /// Whether rows are being paged out. Becomes false when the page file has no more space.
        public let isPagingOut: Bool
    }

    /// The caller's decision after a progress report.
    public enum LoadStep {
        case proceed
        /// Page out the rows read so far and the following ones.
        case pageOut(TreePager)
        case end
    }

    /// Reads the tree with its head and rules, in one consistent snapshot. Reports the progress to `step` at intervals,
    /// and returns nil if `step` returned `end`.
    public func loadTree(
        _ namespace: Int64, _ step: (LoadProgress) -> LoadStep
    ) throws(LogStoreError) -> LoadedTree? {
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
                    var unreported = (rows: 0, bytes: 0)
                    try forEachNode(namespace) { path, value, isLong in
                        rows += 1
                        unreported.rows += 1
                        if case .string(let text) = value { unreported.bytes += text.utf8.count }
                        if unreported.rows == Self.rowsOfProgress || unreported.bytes >= Self.bytesOfProgress {
                            unreported = (0, 0)
                            let progress = LoadProgress(
                                rows: rows, heapBytes: builder.heapBytesInMemory, isPagingOut: builder.isPagingOut)
                            switch step(progress) {
                            case .proceed: break
                            case .pageOut(let pager): builder.beginPagingOut(pager)
                            case .end: throw Ended()
                            }
                        }
                        if isLong {
                            builder.addUnordered(Path(splitting: String(decoding: path, as: UTF8.self)), value)
                        } else {
                            builder.add(path, value)
                        }
                    }
                    let root = builder.finish()
                    return LoadedTree(
                        head: head, root: root, rules: try currentRules(namespace), batch: batch,
                        isInPages: builder.isPagingOut)
                }
            }
        } catch is Ended {
            return nil
        } catch {
            throw LogStoreError(error)
        }
    }

    /// Makes PostgreSQL return rows in primary key order immediately. Without statistics, as after an import,
    /// PostgreSQL would assume a small table, collect all rows first, and sort them on disk, which is two to four times
    /// the work.
    ///
    /// While a large tree is paged out, the caller reads no rows for some time, before and after the last row. The timeouts
    /// allow for these pauses.
    static let streaming = """
        ; set local enable_sort = off; set local enable_bitmapscan = off; set local tcp_user_timeout = '10min';
        set local idle_in_transaction_session_timeout = '10min'; set local statement_timeout = 0
        """

    /// Runs `body` on one snapshot of the database.
    ///
    /// - Parameter settings: statements to append to the beginning of the transaction.
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

    /// Streams all stored rows of a namespace in byte order of their paths. Long paths (see `StoredPath`) come out of
    /// order, and are marked. The path's bytes are valid only during the call.
    public func forEachNode(
        _ namespace: Int64, _ body: (_ path: UnsafeRawBufferPointer, _ value: Node, _ isLong: Bool) throws -> Void
    ) throws {
        // COPY takes no parameters, but the namespace is a number.
        let sql = """
            copy (select path, rest, value from pathmirror.node where namespace_id = \(namespace) order by path)
            to stdout (format binary)
            """
        var leaves = LeafReader()
        try postgres.copyOutRows(sql) { row in
            let value = try row.withBytes(2) { try leaves.read($0) } ?? .null
            if row.isNull(1) {
                try row.withBytes(0) { try body($0, value, false) }
                return
            }
            let path = StoredPath.joined(try row.bytes(0), rest: try row.bytes(1))
            try path.withUnsafeBytes { try body($0, value, true) }
        }
    }

    /// Streams the stored rows at and below a path of less than 2,000 bytes in byte order of their paths, the row of
    /// the path itself first. Long paths (see `StoredPath`) are marked and truncated.
    /// Requires an open transaction, and the session can do nothing else meanwhile. Path and value are valid only
    /// during the call.
    func forEachStoredRow(
        _ namespace: Int64, atAndBelow path: Path,
        _ body: (_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ isLong: Bool) throws -> Void
    ) throws {
        let text = path.description
        var conditions = [""]
        if !path.isRoot {
            // COPY takes no parameters: the bounds are passed as settings of the transaction. The namespace is a
            // number.
            _ = try postgres.execute(
                """
                select set_config('pathmirror.self', $1, true), set_config('pathmirror.low', $2, true),
                    set_config('pathmirror.high', $3, true)
                """, [.text(text), .text(text + "/"), .text(text + "0")])
            conditions = [
                " and path = current_setting('pathmirror.self')",
                " and path >= current_setting('pathmirror.low') and path < current_setting('pathmirror.high')",
            ]
        }
        for condition in conditions {
            let sql = """
                copy (select path, rest is null, value from pathmirror.node where namespace_id = \(namespace)\(condition)
                order by path) to stdout (format binary)
                """
            try postgres.copyOutRows(sql) { row in
                let isLong = try !row.bool(1)
                try row.withBytes(0) { path in try row.withBytes(2) { value in try body(path, value, isLong) } }
            }
        }
    }

    /// Streams the stored rows at and below a path as text. The rows of each branch come together, and a leaf's
    /// priority directly after the leaf. Path and value are valid only during the call.
    ///
    /// - Parameter after: the whole path of a row. Only rows after it are read.
    func forEachNode(
        _ namespace: Int64, atAndBelow path: Path, after: [UInt8]? = nil,
        _ body: (_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        // Slashes are replaced by a character below all characters of keys, so rows below a path directly follow the
        // path.
        let full = "pathmirror.full_path(path, rest)"
        let branches = "replace(\(full), '/', chr(1)) collate \"C\""
        var sql = "select \(full), value::text from pathmirror.node where namespace_id = $1"
        var parameters: PostgresParameters = [
            .int8(namespace), .textBytes((after ?? []).map { $0 == UInt8(ascii: "/") ? 1 : $0 }),
        ]
        sql += " and (\(branches) > $2 or $2 = '')"
        if !path.isRoot {
            let text = path.description
            let below = text + "/"
            if below.utf8.count <= StoredPath.maxPlainBytes {
                sql += " and (path = $3 or (path >= $4 and path < $5))"
                for bound in [text, below, text + "0"] { parameters.appendText(bound) }
            } else {
                sql += " and (\(full) = $3 or starts_with(\(full), $4))"
                for bound in [text, below] { parameters.appendText(bound) }
            }
        }
        try postgres.forEachRow(sql + " order by " + branches, parameters) { row in
            try row.withBytes(0) { path in try row.withBytes(1) { value in try body(path, value) } }
        }
    }
}

extension LogConnection {
    /// Returns the approximate number of rows at and below a path, from PostgreSQL's statistics, or nil without
    /// statistics.
    ///
    /// Intended for progress reports: counting takes seconds in large trees.
    public func estimatedRows(_ namespace: Int64, below path: Path) throws -> Int64? {
        let known = try postgres.execute(
            """
            select exists (select from pg_stats where schemaname = 'pathmirror' and tablename = 'node' and attname = 'namespace_id')
            """)
        guard try known.bool(0, 0) else { return nil }
        let text = path.isRoot ? "" : path.description
        let plan = try postgres.execute(
            """
            explain (format json) select from pathmirror.node
            where namespace_id = $1 and path >= $2 and path < $3
            """, [.int8(namespace), .text(path.isRoot ? "" : text), .text("\(text)0")])
        // The plan is a single scan, which has one row count.
        let words = try plan.string(0, 0).split(separator: "\"Plan Rows\": ", maxSplits: 1)
        return words.count == 2 ? Int64(words[1].prefix { $0.isNumber }) : nil
    }
}
