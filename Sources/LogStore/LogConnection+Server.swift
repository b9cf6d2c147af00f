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
    /// Which server this session is on.
    ///
    /// - Throws: `standby` where it only repeats what another one writes.
    public func serverIdentity() throws(LogStoreError) -> ServerIdentity {
        let (isStandby, timeline, mayAsk) = try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select pg_is_in_recovery(),
                    case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end,
                    has_function_privilege('pg_catalog.pg_control_system()', 'execute')
                """)
            return (try rows.bool(0, 0), rows.isNull(0, 1) ? "" : try rows.string(0, 1), try rows.bool(0, 2))
        }
        guard !isStandby else { throw .standby }
        var system: Int64?
        if mayAsk {
            system = try translated { () throws(PostgresError) in
                try postgres.execute("select system_identifier from pg_catalog.pg_control_system()").int64(0, 0)
            }
        }
        return ServerIdentity(system: system, timeline: Int64(timeline, radix: 16) ?? 0)
    }
}
