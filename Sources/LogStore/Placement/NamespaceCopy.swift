import Postgres

/// The copy of a namespace in another database, brought up to date in rounds while clients write to the source. Each
/// round is one snapshot of the source and one transaction of the target. Entries are not interpreted: the rows at the
/// paths that they name are copied in their current state.
final class NamespaceCopy {
    let source: PostgresConnection
    let target: PostgresConnection
    let sourceID: Int64
    let targetID: Int64
    private let pipe: TableRowCopier

    /// Columns of the namespace's row with the same meaning in both databases.
    private static let rowColumns =
        "head, retained_from, stream_key, any_order_from, stamped_at, last_batch, pruned_batch, created_at"
    /// Tables that change only with entries, and whose rows never change afterwards.
    static let appended = ["log", "log_part", "rule"]
    /// Tables that are small, or change without entries. The last round copies them whole.
    static let whole = [
        "named_write", "cursor", "replay_applied", "import_progress", "retention", "retention_run", "session",
    ]
    /// Whether and what the namespace follows. No gateway follows the copy until one finds it.
    static let ofFollowing = ["follow"]
    /// Feeds and their state. Rows of the later tables refer to the first.
    static let ofFeeds = ["feed", "feed_progress", "feed_owner", "feed_message"]
    /// The length in bytes to which paths are truncated. Rows with longer paths can only be found by their first 2,000
    /// bytes.
    static let mostPathBytes = 1_500
    /// The prefix of the names of dormant copies. Clients can't request such names, and gateways ignore them when they
    /// look for work.
    static let namePrefix = ".moving/"
    /// The limits for waiting and for the duration of statements in the last round, during which writers wait.
    private static let limits = "set local lock_timeout = '2s'; set local statement_timeout = '30s'"

    /// Returns the name of a namespace's copy until the copy is activated.
    static func hiddenName(_ namespace: String) -> String { namePrefix + namespace }

    /// Whether a name belongs to a dormant copy, or to a namespace that was put aside by hand. Gateways do not serve or
    /// process these.
    static func isHidden(_ name: String) -> Bool { name.utf8.first == UInt8(ascii: ".") }

    /// - Parameter onRows: called at intervals with the number of rows copied since the last call.
    init(
        _ source: LogConnection, _ sourceID: Int64, _ target: LogConnection, _ targetID: Int64,
        onRows: @escaping (Int) -> Void
    ) throws {
        self.source = source.postgres
        self.target = target.postgres
        self.sourceID = sourceID
        self.targetID = targetID
        pipe = TableRowCopier(
            source: source.postgres, target: target.postgres, sourceID: sourceID, targetID: targetID, onRows: onRows)
        for connection in [self.source, self.target] {
            try connection.executeScript(
                """
                create temp table if not exists moved_part (path text collate "C" not null);
                create temp table if not exists moved_row (path text collate "C" not null)
                """)
        }
    }

    /// The result of one round.
    struct Round {
        let entries: Int64
    }

    /// Copies everything that the target lacks, from one snapshot of the source.
    func round() throws -> Round {
        try source.executeScript("begin isolation level repeatable read")
        do {
            let round = try copy(nil)
            try source.executeScript("commit")
            return round
        } catch {
            if source.isOpen { try? source.executeScript("rollback") }
            throw error
        }
    }

    /// Copies the rest. The caller has opened the source's transaction and locked the namespace.
    /// The copy stays dormant.
    ///
    /// - Parameter farewell: the hand-over token, which the caller stores in the source as well. It identifies the
    ///   complete copy.
    func lastRound(farewell: String) throws { _ = try copy(farewell) }

    private func copy(_ farewell: String?) throws -> Round {
        let newest = try source.execute(
            "select head from pathmirror.namespace where id = $1", [.int8(sourceID)]
        ).int64(0, 0)
        // This runs in its own transaction, because it locks tables to which other sessions write, and these must not
        // wait for the round.
        try makeRoom(newest + 1)
        try target.executeScript("begin")
        do {
            if farewell != nil { try target.executeScript(Self.limits) }
            let (last, isNew) = try lockedHead()
            // Entries that are not retained any more stay in the source until their partition is dropped. A new copy
            // contains none of them.
            let after = isNew ? max(last, try retainedFrom() - 1) : last
            for table in Self.appended {
                let count = try pipe(table, "n.seq > \(table == "rule" ? last : after)")
                // The log was shortened in the meantime. It is unknown which rows of the tree the missing entries
                // changed.
                if table == "log", !isNew, Int64(count) != newest - last { throw CopyDiverged() }
            }
            try copySnapshots(isLast: farewell != nil)
            try copyNodes(after: last)
            if farewell != nil { try copyWhole() }
            try copyRow()
            if farewell != nil { try copyFollowing() }
            _ = try target.execute(
                "update pathmirror.namespace_copy set farewell = $2::text::uuid where namespace_id = $1",
                [.int8(targetID), farewell.map { .text($0) } ?? .null(.text)])
            try target.executeScript("commit")
            return Round(entries: newest - last)
        } catch {
            if target.isOpen { try? target.executeScript("rollback") }
            throw error
        }
    }

    private func retainedFrom() throws -> Int64 {
        try source.execute(
            "select retained_from from pathmirror.namespace where id = $1", [.int8(sourceID)]
        ).int64(0, 0)
    }

    /// Creates the partitions for entries up to `seq`. The partitions of a new copy begin with the first retained
    /// entry.
    private func makeRoom(_ seq: Int64) throws {
        _ = try target.execute(
            """
            update pathmirror.namespace set partitioned_to = $2
            where id = $1 and created_at = '-infinity' and partitioned_to = shared_to and partitioned_to < $2
            """, [.int8(targetID), .int8(try retainedFrom())])
        _ = try target.execute(
            "select pathmirror.ensure_log_partition($1, $2, 1000000)", [.int8(targetID), .int8(seq)])
    }

    /// Locks the copy's row, and returns the copy's head and whether nothing has been copied yet.
    ///
    /// - Throws: `CopyDiverged` if there is no such dormant copy, or the source was restored from a backup.
    private func lockedHead() throws -> (head: Int64, isNew: Bool) {
        let row = try target.execute(
            """
            select head, \(LogConnection.headBatch), created_at = '-infinity' from pathmirror.namespace as known
            where id = $1 and exists (
                select from pathmirror.namespace_copy as copy
                where copy.namespace_id = known.id and copy.is_dormant and known.name = '\(Self.namePrefix)' || copy.namespace)
            for update
            """, [.int8(targetID)])
        guard row.rowCount == 1 else { throw CopyDiverged() }
        let head = try row.int64(0, 0)
        guard try !row.bool(0, 2) else { return (head, true) }
        let end = LogPosition(seq: head, batch: row.isNull(0, 1) ? nil : try row.bytes(0, 1))
        guard try Self.has(source, sourceID, end) else { throw CopyDiverged() }
        return (head, false)
    }

    /// Whether a namespace's log contains the entry before a position, or ends with it. Seq 0, which is no entry, matches
    /// as long as the log reaches back to its beginning.
    static func has(
        _ connection: PostgresConnection, _ namespace: Int64, _ position: LogPosition
    ) throws -> Bool {
        try connection.execute(
            """
            select exists (select from pathmirror.log where namespace_id = $1 and seq = $2 and batch_id = $3)
                or exists (select from pathmirror.namespace where id = $1 and (
                    head = $2 and \(LogConnection.headBatch) is not distinct from $3 or $2 = 0 and retained_from <= 1))
            """, [.int8(namespace), .int8(position.seq), position.batch.map { .uuid($0) } ?? .null(.uuid)]
        ).bool(0, 0)
    }

    // MARK: Rows

    /// Copies the rows of a table that match `condition`. The condition must contain only numbers and fixed names,
    /// because COPY takes no parameters.
    ///
    /// - Parameter rows: the source of the rows, if not the whole table.
    /// - Returns: the number of rows.
    @discardableResult
    func pipe(
        _ table: String, _ condition: String, _ replaced: [String: String] = [:], rows relation: String? = nil
    ) throws -> Int {
        try pipe.copy(table, condition, replaced, rows: relation)
    }

    /// Copies the snapshots that the target lacks, and removes those that the source no longer has. Copies all rows of
    /// table `snapshot`, because they may have changed.
    ///
    /// - Parameter isLast: whether this is the last round, whose source transaction does not use a single snapshot. The
    ///   rows are then locked, so that the copied state is consistent.
    private func copySnapshots(isLast: Bool) throws {
        func kept(_ connection: PostgresConnection, _ id: Int64, _ lock: String = "") throws -> Set<Int64> {
            let rows = try connection.execute(
                "select seq from pathmirror.snapshot where namespace_id = $1 order by seq \(lock)", [.int8(id)])
            var found = Set<Int64>()
            for row in 0..<rows.rowCount { found.insert(try rows.int64(row, 0)) }
            return found
        }
        let wanted = try kept(source, sourceID, isLast ? "for share" : "")
        let there = try kept(target, targetID)
        for seq in there.subtracting(wanted) {
            _ = try target.execute(
                "delete from pathmirror.snapshot_chunk where namespace_id = $1 and seq = $2",
                [.int8(targetID), .int8(seq)])
        }
        for seq in wanted.subtracting(there) { try pipe("snapshot_chunk", "n.seq = \(seq)") }
        _ = try target.execute("delete from pathmirror.snapshot where namespace_id = $1", [.int8(targetID)])
        guard !wanted.isEmpty else { return }
        try pipe("snapshot", "n.seq in (\(wanted.map { "\($0)" }.joined(separator: ", ")))")
    }

    private func copyWhole() throws {
        for table in Self.whole {
            _ = try target.execute("delete from pathmirror.\(table) where namespace_id = $1", [.int8(targetID)])
            try pipe(table, "true")
        }
        try copyFeeds()
    }

    /// Copies what the namespace follows. The head of a copy that follows can't be moved by the next round, if there is
    /// one: `copyRow` ends the following first.
    private func copyFollowing() throws {
        for table in Self.ofFollowing {
            _ = try target.execute("delete from pathmirror.\(table) where namespace_id = $1", [.int8(targetID)])
            try pipe(table, "true", ["fence": "null::uuid", "gateway": "null::text", "batch": "null::uuid"])
        }
        let isFollowing = try source.execute(
            "select is_following from pathmirror.namespace where id = $1", [.int8(sourceID)]
        ).bool(0, 0)
        guard isFollowing else { return }
        _ = try target.execute("update pathmirror.namespace set is_following = true where id = $1", [.int8(targetID)])
    }

    private func copyRow() throws {
        let row = try source.execute(
            """
            select head, retained_from, stream_key::text, any_order_from, stamped_at::text, last_batch::text,
                pruned_batch::text, created_at::text from pathmirror.namespace where id = $1
            """, [.int8(sourceID)])
        func text(_ column: Int) throws -> PostgresValue {
            row.isNull(0, column) ? .null(.text) : .text(try row.string(0, column))
        }
        _ = try target.execute(
            """
            update pathmirror.namespace set (\(Self.rowColumns)) = ($2::bigint, $3::bigint, $4::text::uuid, $5::bigint,
                $6::text::timestamptz, $7::text::uuid, $8::text::uuid, $9::text::timestamptz), is_following = false where id = $1
            """,
            [
                .int8(targetID), .int8(try row.int64(0, 0)), .int8(try row.int64(0, 1)), try text(2),
                .int8(try row.int64(0, 3)), try text(4), try text(5), try text(6), try text(7),
            ])
    }
}

/// The copy has entries that the source lacks, or lacks entries that the source has removed. It can't be continued.
struct CopyDiverged: Error {}

/// The rows of the tree. For the paths that entries name, the current rows are copied.
extension NamespaceCopy {
    /// Copies all rows into a new copy, or else the rows that entries after `last` affect.
    func copyNodes(after last: Int64) throws {
        let version = ["version": "pathmirror.version_seq(n.version)"]
        let isNew = try target.execute(
            "select created_at = '-infinity' from pathmirror.namespace where id = $1", [.int8(targetID)]
        ).bool(0, 0)
        if isNew {
            try pipe("node", "true", version)
            return
        }
        try noteTouched(after: last)
        _ = try target.execute(
            "delete from pathmirror.node where ctid = any(array(select n.ctid from \(Self.movedRows(targetID)) as n))")
        try pipe("node", "true", version, rows: Self.movedRows(sourceID))
    }

    /// Returns a query for the rows of the tree named in `moved_row`. `offset 0` forces a separate lookup for each: for
    /// a table without statistics, as the target's is at this time, the planner assumes few rows and would compare each
    /// row with each path.
    private static func movedRows(_ id: Int64) -> String {
        """
        (select known.* from (select distinct path from moved_row) as moved cross join lateral (
            select n.ctid, n.* from pathmirror.node as n where n.namespace_id = \(id) and n.path = moved.path offset 0
        ) as known)
        """
    }

    /// Records on both sides which rows of the tree are affected by entries: the rows of the parts that they name, and
    /// single rows above. The entries are read from the copy, because the source's log may have been shortened since.
    private func noteTouched(after last: Int64) throws {
        var parts = Set<[UInt8]>()
        var rows = Set<[UInt8]>()
        for table in ["log", "log_part"] {
            try target.forEachRow(
                "select distinct json_object_keys(changes) from pathmirror.\(table) where namespace_id = $1 and seq > $2",
                [.int8(targetID), .int8(last)]
            ) { row in
                let touched = AffectedRows(try row.bytes(0))
                parts.insert(touched.part)
                rows.formUnion(touched.above)
            }
        }
        rows.formUnion(parts)
        for (connection, id) in [(source, sourceID), (target, targetID)] {
            try connection.executeScript(
                "truncate moved_part, moved_row; set local enable_seqscan = off; set local jit = off")
            try fill("moved_part", parts, connection)
            try fill("moved_row", rows, connection)
            // Searches the index one part at a time: see `movedRows`.
            _ = try connection.execute(
                """
                insert into moved_row select below.path from (select distinct path from moved_part) as part cross join lateral (
                    select n.path from pathmirror.node as n
                    where n.namespace_id = $1 and n.path >= part.path || '/' and n.path < part.path || '0' offset 0
                ) as below
                """, [.int8(id)])
            try connection.executeScript("analyze moved_row")
        }
    }

    private func fill(_ table: String, _ paths: Set<[UInt8]>, _ connection: PostgresConnection) throws {
        _ = try connection.copyIn("copy \(table) from stdin (format binary)") { writer in
            for path in paths {
                writer.beginRow()
                try writer.appendText(path)
                try writer.endRow()
            }
        }
    }
}

/// The rows of the tree that an entry's path affects: the rows at and below a part of the path, and single rows above.
/// Uses bytes, because keys that are equivalent in Unicode are different keys, and a slash may be followed by a
/// combining mark.
struct AffectedRows: Equatable {
    /// Empty for the whole tree.
    let part: [UInt8]
    let above: Set<[UInt8]>

    private static let slash = UInt8(ascii: "/")
    private static let priority = Array("/.priority".utf8)

    init(_ path: [UInt8]) {
        var keys = path.split(separator: Self.slash)
        while keys.reduce(0, { $0 + $1.count + 1 }) > NamespaceCopy.mostPathBytes { keys.removeLast() }
        var above = Set<[UInt8]>()
        var prefix: [UInt8] = []
        for key in keys {
            above.insert(prefix.isEmpty ? [Self.slash] : prefix)
            above.insert(prefix + Self.priority)
            prefix.append(Self.slash)
            prefix += key
        }
        part = prefix
        self.above = above
    }
}

/// The ids of feeds are local to a database, so the feeds of a copy get new ids.
extension NamespaceCopy {
    /// Replaces the copy's feeds and their state with those of the source.
    func copyFeeds() throws {
        for table in Self.ofFeeds.reversed() {
            _ = try target.execute("delete from pathmirror.\(table) where namespace_id = $1", [.int8(targetID)])
        }
        let known = try source.execute(
            "select id from pathmirror.feed where namespace_id = $1 order by id", [.int8(sourceID)])
        guard known.rowCount > 0 else { return }
        var former: [String] = []
        var cases = ""
        for row in 0..<known.rowCount {
            let id = try known.int64(row, 0)
            let new = try target.execute("select nextval(pg_get_serial_sequence('pathmirror.feed', 'id'))")
            former.append("\(id)")
            cases += " when \(id) then \(try new.int64(0, 0))"
        }
        let list = former.joined(separator: ", ")
        try pipe("feed", "n.id in (\(list))", ["id": "case n.id\(cases) end"])
        for table in Self.ofFeeds.dropFirst() {
            try pipe(table, "n.feed in (\(list))", ["feed": "case n.feed\(cases) end"])
        }
    }
}
