import Postgres

/// Who follows a PostgreSQL server, and what it keeps for whom.
public struct ReplicationFacts: Sendable, Equatable {
    public struct Standby: Sendable, Equatable {
        public let name: String
        public let state: String
        /// `sync`, `quorum`, `potential` or `async`.
        public let mode: String
        /// What it has not written to its disk yet; nil where this user may not know.
        public let lagBytes: Int64?

        public init(name: String, state: String, mode: String, lagBytes: Int64?) {
            self.name = name
            self.state = state
            self.mode = mode
            self.lagBytes = lagBytes
        }
    }

    public struct Slot: Sendable, Equatable {
        public let name: String
        public let isActive: Bool
        /// What of the write-ahead log is kept for it.
        public let keptBytes: Int64
        /// `reserved`, `extended`, `unreserved` or `lost`.
        public let status: String

        public init(name: String, isActive: Bool, keptBytes: Int64, status: String) {
            self.name = name
            self.isActive = isActive
            self.keptBytes = keptBytes
            self.status = status
        }
    }

    public var standbys: [Standby] = []
    public var slots: [Slot] = []
    /// Whether the newest attempt to archive a piece of the write-ahead log failed.
    public var archivingFails = false

    public init() {}
}

extension LogConnection {
    /// Looks who follows the server. Empty on a standby.
    public func replicationFacts() throws(LogStoreError) -> ReplicationFacts {
        try translated { () throws(PostgresError) in
            var facts = ReplicationFacts()
            let followers = try postgres.execute(
                """
                select coalesce(application_name, ''), coalesce(state, ''), coalesce(sync_state, ''),
                    pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::bigint
                from pg_stat_replication where not pg_is_in_recovery() order by 1
                """)
            for row in 0..<followers.rowCount {
                facts.standbys.append(
                    .init(
                        name: try followers.string(row, 0), state: try followers.string(row, 1),
                        mode: try followers.string(row, 2),
                        lagBytes: followers.isNull(row, 3) ? nil : try followers.int64(row, 3)))
            }
            let slots = try postgres.execute(
                """
                select slot_name::text, active, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,
                    coalesce(wal_status, '')
                from pg_replication_slots where not pg_is_in_recovery() order by 1
                """)
            for row in 0..<slots.rowCount {
                facts.slots.append(
                    .init(
                        name: try slots.string(row, 0), isActive: try slots.bool(row, 1),
                        keptBytes: try slots.int64(row, 2), status: try slots.string(row, 3)))
            }
            facts.archivingFails = try postgres.execute(
                "select coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) from pg_stat_archiver"
            ).bool(0, 0)
            return facts
        }
    }
}
