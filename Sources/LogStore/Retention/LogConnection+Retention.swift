import Postgres

/// The result of the last retention rounds of a namespace.
public struct RetentionRun: Sendable, Equatable {
    /// The time of the last round, in milliseconds since 1970.
    public let ranAt: Int64
    /// The numbers of dropped entries and of snapshots since retention began for the namespace.
    public let dropped: Int64
    public let snapshots: Int64
    /// The reader that still needs entries beyond the policy, such as `mirror orders`.
    public let waitsFor: String?
    /// The reason why the last round failed, or nil.
    public let message: String?
}

extension LogConnection {
    /// The namespace id of the default policy in `pathmirror.retention`.
    private static let allNamespaces: Int64 = 0

    /// Returns the policy of a namespace itself. For nil, returns the default policy.
    public func retentionPolicy(of namespace: Int64?) throws(LogStoreError) -> RetentionPolicy? {
        try retentionPolicies("namespace_id = $1", namespace ?? Self.allNamespaces).values.first
    }

    /// Returns the ids of the namespaces that have a policy of their own.
    public func namespacesWithOwnRetention() throws(LogStoreError) -> Set<Int64> {
        Set(try retentionPolicies("namespace_id > $1", Self.allNamespaces).keys)
    }

    /// Returns the policy that applies to a namespace: its own, or the default policy.
    public func retentionInForce(for namespace: Int64) throws(LogStoreError) -> RetentionPolicy? {
        let found = try retentionPolicies("namespace_id in ($1, 0)", namespace)
        return found[namespace] ?? found[Self.allNamespaces]
    }

    /// Sets a retention policy. Requires the schema's owner.
    ///
    /// - Parameter namespace: nil for the default policy.
    public func setRetention(_ policy: RetentionPolicy, of namespace: Int64?) throws(LogStoreError) {
        var seconds: Int64?
        var entries: Int64?
        switch policy.keeping {
        case .seconds(let count)?: seconds = count
        case .entries(let count)?: entries = count
        case .from?, nil: break
        }
        let parameters: PostgresParameters = [
            .int8(namespace ?? Self.allNamespaces), seconds.map { .int8($0) } ?? .null(.int8),
            entries.map { .int8($0) } ?? .null(.int8), policy.maxBytes.map { .int8($0) } ?? .null(.int8),
            policy.snapshotSeconds.map { .int8($0) } ?? .null(.int8),
        ]
        try mayBeMisplaced { () throws(PostgresError) in
            let set = PipelineStep.query(
                """
                insert into pathmirror.retention (namespace_id, keep_seconds, keep_entries, max_bytes, snapshot_seconds)
                values ($1, $2, $3, $4, $5)
                on conflict (namespace_id) do update set keep_seconds = excluded.keep_seconds, keep_entries = excluded.keep_entries,
                    max_bytes = excluded.max_bytes, snapshot_seconds = excluded.snapshot_seconds, set_at = now()
                """, parameters)
            _ = try holding(namespace, [set])
        }
    }

    /// Removes a retention policy. Returns false if there was none.
    public func removeRetention(of namespace: Int64?) throws(LogStoreError) -> Bool {
        try mayBeMisplaced { () throws(PostgresError) in
            let remove = PipelineStep.query(
                "delete from pathmirror.retention where namespace_id = $1", [.int8(namespace ?? Self.allNamespaces)])
            return try holding(namespace, [remove])[0].affectedRows == 1
        }
    }

    /// Returns the next namespaces, in the order of their ids, with an effective policy and with entries. Leaves out
    /// hidden namespaces.
    public func namespacesWithRetention(after id: Int64, limit: Int64) throws(LogStoreError) -> [Int64] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select id from pathmirror.namespace
                where id > $1 and head >= retained_from and name not like '.%'
                    and exists (select from pathmirror.retention where namespace_id in (namespace.id, 0))
                order by id limit $2
                """, [.int8(id), .int8(limit)])
            var found: [Int64] = []
            for row in 0..<rows.rowCount { found.append(try rows.int64(row, 0)) }
            return found
        }
    }

    /// Returns the server's clock, in milliseconds since 1970.
    func clockMilliseconds() throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            try postgres.execute("select (extract(epoch from clock_timestamp()) * 1000)::bigint").int64(0, 0)
        }
    }

    /// Acquires the lock for shortening logs until this session ends. Returns false if another session holds it.
    public func takeRetentionTurn() throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            // "pmretain" as a number.
            try postgres.execute("select pg_try_advisory_lock(\(0x706D_7265_7461_696E as Int64))").bool(0, 0)
        }
    }

    /// Drops the next piece of the log before the oldest retained entry (see `pathmirror.drop_log`).
    ///
    /// - Returns: the number of dropped entries, or 0 if nothing is left to drop.
    public func dropPiece(of namespace: Int64) throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            try postgres.execute("select pathmirror.drop_log($1)", [.int8(namespace)]).int64(0, 0)
        }
    }

    /// Searches a part of the oldest partition if it has too many entries for `dropPiece` to search it (see
    /// `pathmirror.look_through_log`). Takes about a second.
    ///
    /// - Returns: whether there may be something to drop, or more to search.
    func lookThroughLog(of namespace: Int64) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute("select pathmirror.look_through_log($1)", [.int8(namespace)]).bool(0, 0)
        }
    }

    /// Whether entries that are not retained can be dropped: a whole partition, or entries in the tables that
    /// namespaces share. False if a reader still needs such entries, as after a forced prune.
    func hasLeftOver(_ namespace: NamespaceRecord) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                select (exists (
                    select from (
                        select lead(split_part(relname, '_', 3)::bigint) over (order by split_part(relname, '_', 3)::bigint) as past
                        from pg_class where relnamespace = 'pathmirror'::regnamespace and relkind = 'r'
                            and relname >= 'log_' || $1::text || '_' and relname < 'log_' || $1::text || '`'
                            and relname ~ ('^log_' || $1::text || '_[0-9]+$')
                    ) as piece where past <= $2)
                    or exists (select from pathmirror.log_begin where namespace_id = $1 and seq < $2))
                    and not exists (select from pathmirror.log_cursor where namespace_id = $1 and seq < $2 - 1)
                """, [.int8(namespace.id), .int8(namespace.retainedFrom)]
            ).bool(0, 0)
        }
    }

    /// Stores the result of a round for a namespace.
    public func noteRetention(
        _ namespace: Int64, dropped: Int64, snapshots: Int64, waitsFor: String?, message: String?
    ) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                """
                insert into pathmirror.retention_run as run (namespace_id, dropped, snapshots, waits_for, message)
                select id, $2, $3, $4, $5 from pathmirror.namespace where id = $1
                on conflict (namespace_id) do update set ran_at = now(), dropped = run.dropped + excluded.dropped,
                    snapshots = run.snapshots + excluded.snapshots, waits_for = excluded.waits_for, message = excluded.message
                """,
                [
                    .int8(namespace), .int8(dropped), .int8(snapshots), waitsFor.map { .text($0) } ?? .null(.text),
                    message.map { .text($0) } ?? .null(.text),
                ])
        }
    }

    /// Returns the result of the last rounds for a namespace, or nil if there were none.
    public func retentionRun(of namespace: Int64) throws(LogStoreError) -> RetentionRun? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select (extract(epoch from ran_at) * 1000)::bigint, dropped, snapshots, waits_for, message
                from pathmirror.retention_run where namespace_id = $1
                """, [.int8(namespace)])
            guard rows.rowCount == 1 else { return nil }
            return RetentionRun(
                ranAt: try rows.int64(0, 0), dropped: try rows.int64(0, 1), snapshots: try rows.int64(0, 2),
                waitsFor: rows.isNull(0, 3) ? nil : try rows.string(0, 3),
                message: rows.isNull(0, 4) ? nil : try rows.string(0, 4))
        }
    }

    private func retentionPolicies(
        _ condition: String, _ namespace: Int64
    ) throws(LogStoreError) -> [Int64: RetentionPolicy] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select namespace_id, keep_seconds, keep_entries, max_bytes, snapshot_seconds from pathmirror.retention
                where \(condition)
                """, [.int8(namespace)])
            var found: [Int64: RetentionPolicy] = [:]
            for row in 0..<rows.rowCount {
                var keeping: Pruning.Keeping?
                if !rows.isNull(row, 1) { keeping = .seconds(try rows.int64(row, 1)) }
                if !rows.isNull(row, 2) { keeping = .entries(try rows.int64(row, 2)) }
                found[try rows.int64(row, 0)] = RetentionPolicy(
                    keeping: keeping, maxBytes: rows.isNull(row, 3) ? nil : try rows.int64(row, 3),
                    snapshotSeconds: rows.isNull(row, 4) ? nil : try rows.int64(row, 4))
            }
            return found
        }
    }
}
