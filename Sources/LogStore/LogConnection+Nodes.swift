import Postgres
public import Tree

extension LogConnection {
    /// The tree, and the head and rules that belong to it, in one consistent read.
    public func loadTree(_ namespace: Int64) throws(LogStoreError) -> LoadedTree {
        guard let loaded = try loadTree(namespace, { _ in .goOn }) else { preconditionFailure("nobody said no") }
        return loaded
    }

    /// How many rows, and how many bytes of values, are read between two calls of who wants to know about the progress.
    private static let rowsOfProgress = 8_192
    private static let bytesOfProgress = 4 << 20

    /// A namespace's tree and rules as of its head.
    public struct LoadedTree: Sendable {
        public let head: Int64
        public let root: Node
        public let rules: StoredRules?
        /// The batch of the head's entry; nil where there is none.
        public let batch: [UInt8]?
        /// Whether all of the tree is in pages that can be.
        public let isInPages: Bool
    }

    /// How far the reading of a tree has come.
    public struct LoadProgress: Sendable {
        /// Rows that have been read.
        public let rows: Int
        /// About what takes memory of them, in bytes; not what is in pages.
        public let heapBytes: Int
        /// Whether what is read goes into pages. Not any more where there was no room in them.
        public let isPacking: Bool
    }

    /// How the reading of a tree goes on.
    public enum LoadStep {
        case goOn
        /// From here on what is read is put into pages, and what has been read, too.
        case pack(TreePacker)
        case end
    }

    /// The same; `step` is told every so often how far it has come, and says how it goes on. Nil when it said `end`.
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
                    var untold = (rows: 0, bytes: 0)
                    try forEachNode(namespace) { path, value, isLong in
                        rows += 1
                        untold.rows += 1
                        if case .string(let text) = value { untold.bytes += text.utf8.count }
                        if untold.rows == Self.rowsOfProgress || untold.bytes >= Self.bytesOfProgress {
                            untold = (0, 0)
                            let progress = LoadProgress(
                                rows: rows, heapBytes: builder.heapBytesInMemory, isPacking: builder.isPacking)
                            switch step(progress) {
                            case .goOn: break
                            case .pack(let packer): builder.beginPacking(packer)
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
                        isInPages: builder.isPacking)
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
    ///
    /// Who puts a large tree into pages reads nothing for a while, before the last row and behind it: the server waits for that.
    private static let streaming = """
        ; set local enable_sort = off; set local enable_bitmapscan = off; set local tcp_user_timeout = '10min';
        set local idle_in_transaction_session_timeout = '10min'; set local statement_timeout = 0
        """

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

    /// Streams the stored rows at and below a path (of less than 2,000 bytes) in the order of their path's bytes, the path's
    /// own first; long paths (see `StoredPath`) are marked, and are not whole. Needs a transaction; the session can do
    /// nothing else meanwhile. Path and value are valid during the call only.
    func forEachStoredRow(
        _ namespace: Int64, atAndBelow path: Path,
        _ body: (_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ isLong: Bool) throws -> Void
    ) throws {
        let text = path.description
        var conditions = [""]
        if !path.isRoot {
            // COPY takes no parameters: the bounds travel as settings of the transaction, the namespace is a number.
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

    /// Streams the stored rows at and below a path as texts, each branch's rows together, and a leaf's priority right
    /// behind the leaf. Path and value are valid during the call only.
    ///
    /// - Parameter after: the whole path of a row: only those that come behind it.
    func forEachNode(
        _ namespace: Int64, atAndBelow path: Path, after: [UInt8]? = nil,
        _ body: (_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        // Slashes sort below everything that keys may hold: then what begins with a path follows it at once.
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
    /// About how many rows the tree has at and below a path, as PostgreSQL's statistics say; nil where it has none yet.
    ///
    /// For telling how far something is: counting takes seconds where there are many.
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
        // The only number of rows in a plan of one scan.
        let words = try plan.string(0, 0).split(separator: "\"Plan Rows\": ", maxSplits: 1)
        return words.count == 2 ? Int64(words[1].prefix { $0.isNumber }) : nil
    }
}
