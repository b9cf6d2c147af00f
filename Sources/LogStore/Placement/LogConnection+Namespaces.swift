import Postgres

/// The contents of a namespace, shown to an administrator before its removal.
public struct NamespaceFacts: Sendable, Equatable {
    /// The number of leaves and priorities.
    public let rows: Int64
    /// The number of entries in the log.
    public let entries: Int64
    public let snapshots: Int64
    public let rules: Int64
    /// The number of realtime sessions with stored onDisconnect operations.
    public let sessions: Int64
    /// The names of the namespace's feeds and mirrors.
    public let feeds: [String]
    public let mirrors: [String]
}

extension LogConnection {
    /// Counts the contents of a namespace. Scans all its rows.
    public func facts(of namespace: Int64) throws(LogStoreError) -> NamespaceFacts {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select (select count(*) from pathmirror.node where namespace_id = $1),
                    (select count(*) from pathmirror.log where namespace_id = $1),
                    (select count(*) from pathmirror.snapshot where namespace_id = $1),
                    (select count(*) from pathmirror.rule where namespace_id = $1),
                    (select count(*) from pathmirror.session where namespace_id = $1)
                """, [.int8(namespace)])
            return NamespaceFacts(
                rows: try rows.int64(0, 0), entries: try rows.int64(0, 1), snapshots: try rows.int64(0, 2),
                rules: try rows.int64(0, 3), sessions: try rows.int64(0, 4),
                feeds: try names("select name from pathmirror.feed where namespace_id = $1 order by 1", namespace),
                mirrors: try names("select name from pathmirror.mirror where namespace_id = $1 order by 1", namespace))
        }
    }

    private func names(_ sql: String, _ namespace: Int64) throws(PostgresError) -> [String] {
        let rows = try postgres.execute(sql, [.int8(namespace)])
        var found: [String] = []
        for row in 0..<rows.rowCount { found.append(try rows.string(row, 0)) }
        return found
    }

    /// Removes a namespace with all its contents, in one transaction. Writes to it in the meantime fail.
    /// Returns false if the namespace does not exist. Requires the schema's owner.
    /// Does not touch the tables of its mirrors: drop the mirrors first.
    ///
    /// Leaves the log's own partitions to `removeLeftovers`.
    public func removeNamespace(_ namespace: Int64) throws(LogStoreError) -> Bool {
        try inTransaction { () throws(PostgresError) in try remove(namespace) }
    }

    /// Drops the log partitions of removed namespaces, one by one. If a long read of the log blocks it, it retries for
    /// some minutes. After an interruption, another call continues.
    /// Returns false if there are no partitions.
    ///
    /// - Parameter name: the former name of the namespaces.
    public func removeLeftovers(of name: String) throws(LogStoreError) -> Bool { try dropPartitions(ofRemoved: name) }

    /// Whether a namespace was deliberately removed from this database.
    ///
    /// - Parameter streamKey: the namespace's key, which distinguishes it from an older namespace with its id. Nil if
    ///   only the id is known.
    public func wasRemoved(_ namespace: Int64, streamKey: String? = nil) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                select exists (
                    select from pathmirror.former_namespace as former
                    where former.id = $1 and ($2 is null or former.stream_key = $2::text::uuid)
                        and not exists (select from pathmirror.namespace as known where known.id = former.id))
                """, [.int8(namespace), streamKey.map { .text($0) } ?? .null(.text)]
            ).bool(0, 0)
        }
    }

    /// Whether the namespace with this id has moved from this database to another one.
    public func hasMoved(_ namespace: Int64) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                "select exists (select from pathmirror.former_namespace where id = $1 and moved_to is not null)",
                [.int8(namespace)]
            ).bool(0, 0)
        }
    }

    /// Returns the database to which the last namespace with this name has moved, or nil if it has not moved.
    public func formerlyMoved(_ name: String) throws(LogStoreError) -> String? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select moved_to from pathmirror.former_namespace where name = $1 order by removed_at desc, id desc limit 1",
                [.text(name)])
            return rows.rowCount == 0 || rows.isNull(0, 0) ? nil : try rows.string(0, 0)
        }
    }

    /// Whether a namespace that is not in this database is in another one, or is being moved.
    public func livesElsewhere(_ name: String) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                select exists (select from pathmirror.placement where namespace = $1 and database is not null)
                    -- The home has a row of each that was ever elsewhere, which says more.
                    -- Elsewhere the last one of the name that was here counts: one that came back may have been removed for good since.
                    or coalesce((
                            select moved_to is not null from pathmirror.former_namespace where name = $1
                            order by removed_at desc, id desc limit 1), false)
                        and not exists (select from pathmirror.placement where namespace = $1)
                    or exists (select from pathmirror.namespace_copy where namespace = $1 and is_dormant)
                """, [.text(name)]
            ).bool(0, 0)
        }
    }

    /// Removes the remaining rows of a namespace that a move has taken out of this database. Does nothing if another
    /// namespace has the id by now. After an interruption, another call continues.
    public func clearFormerNamespace(_ namespace: Int64, move: String) throws(LogStoreError) {
        guard try isFormerNamespace(namespace, move: move) else { return }
        try dropPartitions(of: namespace)
        try inTransaction { () throws(PostgresError) in
            guard try isFormer(namespace, move, "for update") else { return }
            try removeRows(namespace)
        }
    }

    /// Whether a move has taken the namespace out of this database, and no other namespace has its id by now.
    private func isFormerNamespace(_ namespace: Int64, move: String) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in try isFormer(namespace, move, "") }
    }

    private func isFormer(_ namespace: Int64, _ move: String, _ lock: String) throws(PostgresError) -> Bool {
        try postgres.execute(
            """
            select from pathmirror.former_namespace as former
            where id = $1 and move = $2::text::uuid
                and not exists (select from pathmirror.namespace as known where known.id = former.id) \(lock)
            """, [.int8(namespace), .text(move)]
        ).rowCount == 1
    }

    /// Removes the dormant copies that a move of a namespace has made here. Requires the schema's owner.
    /// After an interruption, another call drops the remaining partitions.
    public func removeCopies(of move: String, of name: String) throws(LogStoreError) {
        try inTransaction { () throws(PostgresError) in
            let copies = try postgres.execute(
                """
                select namespace.id from pathmirror.namespace join pathmirror.namespace_copy as copy
                    on copy.namespace_id = namespace.id and namespace.name = '\(NamespaceCopy.namePrefix)' || copy.namespace
                where copy.move = $1::text::uuid and copy.is_dormant for update of namespace
                """, [.text(move)])
            for row in 0..<copies.rowCount { _ = try remove(try copies.int64(row, 0)) }
        }
        _ = try dropPartitions(ofRemoved: NamespaceCopy.namePrefix + name)
    }

    func inTransaction<Result>(
        _ body: () throws(PostgresError) -> Result
    ) throws(LogStoreError) -> Result {
        try translated { () throws(PostgresError) in
            // Each statement must see all earlier commits, regardless of the role's default isolation level.
            try postgres.executeScript("begin isolation level read committed")
            do throws(PostgresError) {
                let result = try body()
                try postgres.executeScript("commit")
                return result
            } catch {
                try? postgres.executeScript("rollback")
                throw error
            }
        }
    }

    private func remove(_ namespace: Int64) throws(PostgresError) -> Bool {
        // The namespace's row is deleted first, because its lock blocks writers.
        let removed = try postgres.execute(
            """
            with gone as (delete from pathmirror.namespace where id = $1 returning id, name, stream_key)
            insert into pathmirror.former_namespace (id, name, stream_key) select id, name, stream_key from gone
            on conflict (id) do update
            set name = excluded.name, stream_key = excluded.stream_key, removed_at = excluded.removed_at, head = null,
                moved_to = null, move = null, farewell = null
            """, [.int8(namespace)])
        guard removed.affectedRows == 1 else { return false }
        try removeRows(namespace)
        return true
    }

    private func removeRows(_ namespace: Int64) throws(PostgresError) {
        let tables = try postgres.execute(
            """
            select relname, exists (
                select from pg_attribute where attrelid = pg_class.oid and attname = 'mirror' and relname <> 'mirror_run')
            from pg_class join pg_attribute on attrelid = pg_class.oid and attname = 'namespace_id'
            where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p') and not relispartition
                -- Of the log, and detached by somebody who drops them.
                and relname !~ '^log_[0-9]+_[0-9]+$'
            order by relname = 'mirror', 1
            """)
        for row in 0..<tables.rowCount {
            let table = try tables.string(row, 0)
            guard table != "log" else { continue }
            // The database may also contain tables of other databases' mirrors, whose namespaces have ids of their own.
            let own =
                try tables.bool(row, 1)
                ? " and mirror in (select id from pathmirror.mirror where namespace_id = $1 and target is null)" : ""
            _ = try postgres.execute(
                "delete from pathmirror.\(quotedIdentifier(table)) where namespace_id = $1\(own)", [.int8(namespace)])
        }
        _ = try postgres.execute("delete from pathmirror.log_begin where namespace_id = $1", [.int8(namespace)])
    }
}
