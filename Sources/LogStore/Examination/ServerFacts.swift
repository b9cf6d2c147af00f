import Postgres

/// Facts about a PostgreSQL server, without a judgement: the reader decides which of them are problems.
public struct ServerFacts: Sendable, Equatable {
    /// The version in PostgreSQL's numbering: 150004 is 15.4.
    public var versionNumber: Int64 = 0
    public var version = ""
    public var isStandby = false
    public var encoding = ""
    /// The values of the settings in `ServerFacts.settingNames` in this session.
    public var settings: [String: String] = [:]
    /// The server's clock, in milliseconds since 1970.
    public var clockMilliseconds: Int64 = 0
    /// Whether the server process that answers is the one that libpq connected to. With a pooler in between, they
    /// differ.
    public var isDirect = true
    public var user = ""
    public var isSuperuser = false
    /// Whether this user can see the sessions of other users.
    public var seesAllSessions = false
    public var connections: Int64 = 0
    /// The connection limits of this user and of this database. Negative for no limit.
    public var userConnectionLimit: Int64 = -1
    public var databaseConnectionLimit: Int64 = -1

    /// The names of the settings that are read.
    public static let settingNames = [
        "fsync", "full_page_writes", "autovacuum", "track_counts", "max_connections", "superuser_reserved_connections",
        "default_transaction_read_only", "default_transaction_isolation", "synchronous_standby_names", "archive_mode",
        "max_wal_size", "shared_buffers", "statement_timeout", "idle_in_transaction_session_timeout",
    ]

    public init() {}

    /// Returns a setting as a number, or nil if the server has no such setting or its value is not a number.
    public func number(_ name: String) -> Int64? { settings[name].flatMap { Int64($0) } }
}

extension LogConnection {
    /// Reads the facts about the server of this connection.
    ///
    /// - Throws: `database` if a query fails.
    public func serverFacts() throws(LogStoreError) -> ServerFacts {
        try translated { () throws(PostgresError) in
            var facts = ServerFacts()
            let rows = try postgres.execute(
                """
                select current_setting('server_version_num')::bigint, current_setting('server_version'), pg_is_in_recovery(),
                    current_setting('server_encoding'), (extract(epoch from clock_timestamp()) * 1000)::bigint,
                    pg_backend_pid(), current_user::text, role.rolsuper, pg_has_role('pg_read_all_stats', 'usage'),
                    (select coalesce(sum(numbackends), 0)::bigint from pg_stat_database), role.rolconnlimit::bigint,
                    (select datconnlimit::bigint from pg_database where datname = current_database())
                from pg_roles as role where role.rolname = current_user
                """)
            facts.versionNumber = try rows.int64(0, 0)
            facts.version = try rows.string(0, 1)
            facts.isStandby = try rows.bool(0, 2)
            facts.encoding = try rows.string(0, 3)
            facts.clockMilliseconds = try rows.int64(0, 4)
            facts.isDirect = try rows.int32(0, 5) == postgres.backendPID
            facts.user = try rows.string(0, 6)
            facts.isSuperuser = try rows.bool(0, 7)
            facts.seesAllSessions = try rows.bool(0, 8)
            facts.connections = try rows.int64(0, 9)
            facts.userConnectionLimit = try rows.int64(0, 10)
            facts.databaseConnectionLimit = try rows.int64(0, 11)
            // Each value is in the unit in which the server keeps the setting, such as pages of 8 kB, milliseconds or
            // megabytes.
            var names = PostgresArray(of: .text)
            for name in ServerFacts.settingNames { names.appendText(name) }
            let settings = try postgres.execute(
                "select name, setting from pg_settings where name = any($1)", [.array(names)])
            for row in 0..<settings.rowCount {
                facts.settings[try settings.string(row, 0)] = try settings.string(row, 1)
            }
            return facts
        }
    }
}

/// The standbys and replication slots of a PostgreSQL server.
public struct ReplicationFacts: Sendable, Equatable {
    public struct Standby: Sendable, Equatable {
        public let name: String
        public let state: String
        /// `sync`, `quorum`, `potential` or `async`.
        public let mode: String
        /// The amount of write-ahead log that the standby has not yet flushed to its disk, or nil if this user may not
        /// see it.
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
        /// The amount of write-ahead log that the server keeps for the slot.
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
    /// Whether the latest attempt to archive a write-ahead log segment failed.
    public var archivingFails = false

    public init() {}
}

extension LogConnection {
    /// Reads the standbys and slots of the server. Empty on a standby.
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

/// Transactions that stay open for long. They keep PostgreSQL from removing dead rows.
public struct ActivityFacts: Sendable, Equatable {
    public struct Transaction: Sendable, Equatable {
        public let pid: Int64
        public let application: String
        public let user: String
        public let state: String
        public let seconds: Int64

        public init(pid: Int64, application: String, user: String, state: String, seconds: Int64) {
            self.pid = pid
            self.application = application
            self.user = user
            self.state = state
            self.seconds = seconds
        }
    }

    /// The transactions in this database, longest first, at most ten. Their statements are left out because they may
    /// contain data.
    public var transactions: [Transaction] = []
    /// Transactions of this database that are prepared for a two-phase commit and not finished.
    public var prepared: Int64 = 0
    public var oldestPreparedSeconds: Int64 = 0

    public init() {}
}

extension LogConnection {
    /// Reads the transactions that have been open for longer than `seconds`.
    public func activityFacts(longerThanSeconds seconds: Int64) throws(LogStoreError) -> ActivityFacts {
        try translated { () throws(PostgresError) in
            var facts = ActivityFacts()
            let rows = try postgres.execute(
                """
                select pid::bigint, coalesce(application_name, ''), coalesce(usename::text, ''), coalesce(state, ''),
                    extract(epoch from clock_timestamp() - xact_start)::bigint
                from pg_stat_activity
                where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
                    and xact_start < clock_timestamp() - $1 * interval '1 second'
                order by xact_start limit 10
                """, [.int8(seconds)])
            for row in 0..<rows.rowCount {
                facts.transactions.append(
                    .init(
                        pid: try rows.int64(row, 0), application: try rows.string(row, 1),
                        user: try rows.string(row, 2), state: try rows.string(row, 3), seconds: try rows.int64(row, 4)))
            }
            let prepared = try postgres.execute(
                """
                select count(*), coalesce(extract(epoch from clock_timestamp() - min(prepared)), 0)::bigint
                from pg_prepared_xacts where database = current_database()
                """)
            facts.prepared = try prepared.int64(0, 0)
            facts.oldestPreparedSeconds = try prepared.int64(0, 1)
            return facts
        }
    }
}

/// The programs that serve a database, recognized by the names of their connections.
public struct GatewayFacts: Sendable, Equatable {
    /// How many gateways there are of each program, such as `0.2.0-dev+4ba6e39d01f2, schema 29`; "" counts those without a
    /// program name.
    public var programs: [String: Int64] = [:]

    public init() {}
}

extension LogConnection {
    /// Counts the connections on which gateways follow announcements: each gateway has one. Every user may see the
    /// names of connections.
    public func gatewayFacts() throws(LogStoreError) -> GatewayFacts {
        try translated { () throws(PostgresError) in
            var facts = GatewayFacts()
            let rows = try postgres.execute(
                """
                select substr(application_name, length('pathmirror tail') + 2), count(*) from pg_stat_activity
                where datname = current_database()
                    and (application_name = 'pathmirror tail' or starts_with(application_name, 'pathmirror tail '))
                group by 1
                """)
            for row in 0..<rows.rowCount { facts.programs[try rows.string(row, 0)] = try rows.int64(row, 1) }
            return facts
        }
    }
}

/// The disk usage of the database, and how well PostgreSQL keeps up with vacuuming it.
public struct StorageFacts: Sendable, Equatable {
    public struct Table: Sendable, Equatable {
        public let name: String
        public let liveRows: Int64
        public let deadRows: Int64

        public init(name: String, liveRows: Int64, deadRows: Int64) {
            self.name = name
            self.liveRows = liveRows
            self.deadRows = deadRows
        }
    }

    public var databaseBytes: Int64 = 0
    /// The size of the write-ahead log's files, or nil if this user may not see it.
    public var walBytes: Int64?
    /// The server's data directory, or nil if this user may not see it.
    public var dataDirectory: String?
    /// Whether the server runs on this machine, that is, the connection uses a Unix socket.
    public var isOnThisMachine = false
    /// The age of the oldest unfrozen row, in transactions. PostgreSQL stops at two billion.
    public var transactionAge: Int64 = 0
    /// Tables of schema `pathmirror` with more than 100,000 dead rows and more dead rows than live rows.
    public var bloated: [Table] = []
    /// The number of entries in the logs of all namespaces.
    public var entries: Int64 = 0

    public init() {}
}

extension LogConnection {
    /// Reads sizes from the catalog and the statistics, without scanning tables.
    public func storageFacts() throws(LogStoreError) -> StorageFacts {
        try translated { () throws(PostgresError) in
            var facts = StorageFacts()
            let rows = try postgres.execute(
                """
                select pg_database_size(current_database()),
                    case when pg_has_role('pg_read_all_settings', 'usage') then current_setting('data_directory') end,
                    inet_server_addr() is null,
                    (select age(datfrozenxid)::bigint from pg_database where datname = current_database()),
                    has_function_privilege('pg_ls_waldir()', 'execute')
                """)
            facts.databaseBytes = try rows.int64(0, 0)
            facts.dataDirectory = rows.isNull(0, 1) ? nil : try rows.string(0, 1)
            facts.isOnThisMachine = try rows.bool(0, 2)
            facts.transactionAge = try rows.int64(0, 3)
            if try rows.bool(0, 4) {
                facts.walBytes = try postgres.execute("select coalesce(sum(size), 0)::bigint from pg_ls_waldir()")
                    .int64(0, 0)
            }
            let tables = try postgres.execute(
                """
                select relname::text, n_live_tup, n_dead_tup from pg_stat_user_tables
                where schemaname = 'pathmirror' and n_dead_tup > 100000 and n_dead_tup > n_live_tup order by n_dead_tup desc
                """)
            for row in 0..<tables.rowCount {
                facts.bloated.append(
                    .init(
                        name: try tables.string(row, 0), liveRows: try tables.int64(row, 1),
                        deadRows: try tables.int64(row, 2)))
            }
            facts.entries = try postgres.execute(
                "select coalesce(sum(head - retained_from + 1), 0)::bigint from pathmirror.namespace"
            ).int64(0, 0)
            return facts
        }
    }
}
