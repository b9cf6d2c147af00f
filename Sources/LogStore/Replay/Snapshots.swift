import Postgres
public import Tree

/// A stored copy of a whole tree at one entry.
public struct TreeSnapshot: Sendable, Equatable {
    public let seq: Int64
    /// When the snapshot was taken, in milliseconds since 1970.
    public let createdAt: Int64
    public let rowCount: Int64
    public let purpose: Purpose

    public init(seq: Int64, createdAt: Int64, rowCount: Int64, purpose: Purpose) {
        self.seq = seq
        self.createdAt = createdAt
        self.rowCount = rowCount
        self.purpose = purpose
    }

    public enum Purpose: String, Sendable {
        case manual
        /// Created so that the log before it could be removed. Removed itself when the log begins after a later
        /// snapshot.
        case prune
        /// The starting point of a feed.
        case feed
        /// Created at intervals, so that the log can be shortened up to it.
        case retention

        /// Whether the snapshot is useless once the log begins after a later one.
        var goesWithTheLog: Bool { self == .prune || self == .retention }
    }
}

extension LogConnection {
    /// Returns the namespace's snapshots, oldest first.
    public func snapshots(_ namespace: Int64) throws(LogStoreError) -> [TreeSnapshot] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select seq, (extract(epoch from created_at) * 1000)::bigint, row_count, made_by
                from pathmirror.snapshot where namespace_id = $1 order by seq
                """, [.int8(namespace)])
            var found: [TreeSnapshot] = []
            for row in 0..<rows.rowCount {
                found.append(
                    TreeSnapshot(
                        seq: try rows.int64(row, 0), createdAt: try rows.int64(row, 1),
                        rowCount: try rows.int64(row, 2),
                        purpose: TreeSnapshot.Purpose(rawValue: try rows.string(row, 3)) ?? .manual))
            }
            return found
        }
    }

    /// Stores the current tree as a snapshot. The rows never leave the server, and a single transaction stores either
    /// the whole snapshot or nothing. Writers are not blocked.
    ///
    /// - Returns: the snapshot's seq, or that of the existing snapshot if the tree hasn't changed since.
    public func takeSnapshot(
        _ namespace: Int64, for purpose: TreeSnapshot.Purpose = .manual, progress: (Int) throws -> Void = { _ in }
    ) throws -> Int64 {
        try inSnapshotTransaction(of: namespace) {
            let head = try postgres.execute(
                "select head from pathmirror.namespace where id = $1", [.int8(namespace)]
            ).int64(0, 0)
            guard try beginSnapshot(namespace, head, purpose) else { return head }
            var last: [UInt8] = []
            var rowCount = 0
            var chunk: Int32 = 0
            while true {
                let page = try postgres.execute(
                    Self.copyPage, [.int8(namespace), .int8(head), .int4(chunk), .textBytes(last)])
                let count = Int(try page.int64(0, 0))
                if count == 0 { break }
                last = try page.bytes(0, 1)
                rowCount += count
                chunk += 1
                try progress(rowCount)
            }
            try endSnapshot(namespace, head, rowCount)
            return head
        }
    }

    /// Stores a past tree, rebuilt by `PastTree`, as a snapshot.
    public func saveSnapshot(
        _ namespace: Int64, at seq: Int64, _ root: Node, for purpose: TreeSnapshot.Purpose = .manual
    ) throws {
        _ = try inSnapshotTransaction(of: namespace) {
            guard try beginSnapshot(namespace, seq, purpose) else { return seq }
            var leaves = JSONWriter(form: .export)
            var isEmpty = true
            var chunk: Int32 = 0
            let flush = { (leaves: inout JSONWriter) throws in
                leaves.endObject()
                _ = try self.postgres.execute(
                    "insert into pathmirror.snapshot_chunk (namespace_id, seq, chunk, leaves) values ($1, $2, $3, $4)",
                    [.int8(namespace), .int8(seq), .int4(chunk), .json(leaves.bytes)])
                leaves.removeAll()
                chunk += 1
                isEmpty = true
            }
            var rowCount = 0
            try TreeRows.forEach(in: root) { path, value in
                if isEmpty { leaves.beginObject() }
                leaves.writeKey(String(decoding: path, as: UTF8.self), isFirst: isEmpty)
                leaves.write(value)
                isEmpty = false
                rowCount += 1
                if leaves.bytes.count >= 1 << 20 { try flush(&leaves) }
            }
            if !isEmpty { try flush(&leaves) }
            try endSnapshot(namespace, seq, rowCount)
            return seq
        }
    }

    /// Removes a snapshot. Returns false if there was none.
    public func dropSnapshot(_ namespace: Int64, at seq: Int64) throws -> Bool {
        let results = try postgres.pipeline([
            .query("begin"),
            .query(
                "delete from pathmirror.snapshot_chunk where namespace_id = $1 and seq = $2",
                [.int8(namespace), .int8(seq)]),
            .query(
                "delete from pathmirror.snapshot where namespace_id = $1 and seq = $2", [.int8(namespace), .int8(seq)]),
            .query("commit"),
        ])
        return results[2].affectedRows == 1
    }

    /// Returns the tree of a snapshot, or its part at and below a path, at its original path.
    ///
    /// - Parameters:
    ///   - meter: tracks the memory of the tree.
    ///   - progress: called with the number of leaves read.
    func loadSnapshot(
        _ namespace: Int64, at seq: Int64, within path: Path? = nil, _ meter: inout TreeMeter?,
        progress: (Int64) throws -> Void = { _ in }
    ) throws -> Node {
        let known = try postgres.execute(
            "select row_count from pathmirror.snapshot where namespace_id = $1 and seq = $2",
            [.int8(namespace), .int8(seq)])
        guard known.rowCount == 1 else { throw ReplayError.noSnapshot(seq: seq) }
        var builder = TreeBuilder()
        var rowCount: Int64 = 0
        var chunk: Int32 = 0
        while true {
            let rows = try postgres.execute(
                "select leaves::text from pathmirror.snapshot_chunk where namespace_id = $1 and seq = $2 and chunk = $3",
                [.int8(namespace), .int8(seq), .int4(chunk)])
            guard rows.rowCount == 1 else { break }
            for leaf in try ChangeCodec.decode(try rows.bytes(0, 0)) {
                rowCount += 1
                if let path, !path.contains(leaf.path) { continue }
                let text = Array(leaf.path.description.utf8)
                if text.count > StoredPath.maxPlainBytes {
                    builder.addUnordered(leaf.path, leaf.value)
                } else {
                    text.withUnsafeBytes { builder.add($0, leaf.value) }
                }
            }
            chunk += 1
            if let pager = meter?.pager(whileReading: builder.heapBytesInMemory) { builder.beginPagingOut(pager) }
            try progress(rowCount)
        }
        let expected = try known.int64(0, 0)
        guard rowCount == expected else {
            throw LogStoreError.corrupt("the snapshot at seq \(seq) has \(rowCount) rows instead of \(expected)")
        }
        return builder.finish()
    }

    /// Stores a chunk of at most 5,000 rows. From the second row on, the chunk is limited to about a megabyte as
    /// stored.
    private static let copyPage = """
        with page as (
            select path, rest, value, sum(pg_column_size(value) + length(path)) over (order by path) as size
            from (
                select path, rest, value from pathmirror.node
                where namespace_id = $1 and path > $4 order by path limit 5000
            ) as next
        ), kept as (
            select * from page where size <= 1048576 or path = (select min(path) from page)
        ), saved as (
            insert into pathmirror.snapshot_chunk (namespace_id, seq, chunk, leaves)
            select $1, $2, $3, json_object_agg(pathmirror.full_path(path, rest), value order by path) from kept
            having count(*) > 0
        )
        select count(*), max(path) from kept
        """

    /// Returns false if there is a snapshot at this seq already.
    private func beginSnapshot(
        _ namespace: Int64, _ seq: Int64, _ purpose: TreeSnapshot.Purpose
    ) throws(PostgresError) -> Bool {
        try postgres.execute(
            """
            insert into pathmirror.snapshot (namespace_id, seq, row_count, made_by) values ($1, $2, 0, $3)
            on conflict (namespace_id, seq) do nothing
            """, [.int8(namespace), .int8(seq), .text(purpose.rawValue)]
        ).affectedRows == 1
    }

    private func endSnapshot(_ namespace: Int64, _ seq: Int64, _ rowCount: Int) throws(PostgresError) {
        // The log is read last, because partitions can't be dropped from then on until the transaction ends.
        _ = try postgres.execute(
            """
            update pathmirror.snapshot
            set row_count = $3, entry_at = (select committed_at from pathmirror.log where namespace_id = $1 and seq = $2)
            where namespace_id = $1 and seq = $2
            """, [.int8(namespace), .int8(seq), .int8(Int64(rowCount))])
    }

    /// - Parameter body: creates a snapshot, and returns its seq.
    private func inSnapshotTransaction(of namespace: Int64, _ body: () throws -> Int64) throws -> Int64 {
        try postgres.executeScript("begin isolation level repeatable read")
        do {
            let seq = try body()
            try postgres.executeScript("commit")
            try removeIfGone(namespace, seq)
            return seq
        } catch {
            if postgres.isOpen { try? postgres.executeScript("rollback") }
            throw error
        }
    }

    /// Removes the snapshot if the namespace was removed in the meantime, because the removal did not see the snapshot.
    private func removeIfGone(_ namespace: Int64, _ seq: Int64) throws(LogStoreError) {
        let isThere = try inTransaction { () throws(PostgresError) in
            // A removal in progress locks the row until it ends, so the query waits for it. Commits lock the row in a
            // mode that does not conflict.
            try postgres.executeScript("set local lock_timeout = 0")
            let row = try postgres.execute(
                "select from pathmirror.namespace where id = $1 for key share", [.int8(namespace)])
            guard row.rowCount == 0 else { return true }
            for table in ["snapshot_chunk", "snapshot"] {
                _ = try postgres.execute(
                    "delete from pathmirror.\(table) where namespace_id = $1 and seq = $2",
                    [.int8(namespace), .int8(seq)])
            }
            return false
        }
        guard isThere else { throw .unknownNamespace("\(namespace)") }
    }
}
