import Postgres

/// Which server answers: a cluster, and which of the histories that it has been through.
public struct ServerIdentity: Sendable, Equatable {
    /// The cluster's, the same for all its standbys and backups; nil where the role may not ask.
    public let system: Int64?
    /// Grows by one with each promotion of a standby and each restore to a point in time.
    public let timeline: Int64

    public init(system: Int64?, timeline: Int64) {
        self.system = system
        self.timeline = timeline
    }
}

extension LogConnection {
    /// Returns when the synchronous standbys have all that can be seen now: something of this session is committed behind it.
    /// Whoever finds in the database what an attempt of unknown outcome has written waits so before telling anybody.
    ///
    /// - Throws: `localCommit` as for any commit.
    public func waitForStandbys() throws(LogStoreError) {
        // A transaction that only has a number waits for nobody: there must be something of it in the write-ahead log.
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("select pg_logical_emit_message(true, 'pathmirror', '')")
        }
    }

    /// Which server this session is on.
    ///
    /// - Throws: `standby` where it only repeats what another one writes, `readOnly` where it was told to take no writes.
    public func serverIdentity() throws(LogStoreError) -> ServerIdentity {
        let (isStandby, timeline, mayAsk, isReadOnly) = try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select pg_is_in_recovery(),
                    case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end,
                    has_function_privilege('pg_catalog.pg_control_system()', 'execute'),
                    current_setting('transaction_read_only')::boolean
                """)
            return (
                try rows.bool(0, 0), rows.isNull(0, 1) ? "" : try rows.string(0, 1), try rows.bool(0, 2),
                try rows.bool(0, 3)
            )
        }
        guard !isStandby else { throw .standby }
        guard !isReadOnly else { throw .readOnly }
        var system: Int64?
        if mayAsk {
            system = try translated { () throws(PostgresError) in
                try postgres.execute("select system_identifier from pg_catalog.pg_control_system()").int64(0, 0)
            }
        }
        return ServerIdentity(system: system, timeline: Int64(timeline, radix: 16) ?? 0)
    }
}
