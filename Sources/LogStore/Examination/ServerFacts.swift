import Postgres

/// What is asked of a PostgreSQL server before it is judged. Facts only: whoever reads them decides what is wrong.
public struct ServerFacts: Sendable, Equatable {
    /// As PostgreSQL numbers it: 150004 is 15.4.
    public var versionNumber: Int64 = 0
    public var version = ""
    public var isStandby = false
    public var encoding = ""
    /// The settings in `ServerFacts.settingNames`, as this session has them.
    public var settings: [String: String] = [:]
    /// The server's clock, in milliseconds since 1970.
    public var clockMilliseconds: Int64 = 0
    /// Whether the server process that answers is the one that libpq was told of: a pooler in between gives another.
    public var isDirect = true
    public var user = ""
    public var isSuperuser = false
    /// Whether this user is told of the sessions of others.
    public var seesAllSessions = false
    public var connections: Int64 = 0
    /// The most connections of this user, and of this database; negative for no bound.
    public var userConnectionLimit: Int64 = -1
    public var databaseConnectionLimit: Int64 = -1

    /// The settings that are read.
    public static let settingNames = [
        "fsync", "full_page_writes", "autovacuum", "track_counts", "max_connections", "superuser_reserved_connections",
        "default_transaction_read_only", "default_transaction_isolation", "synchronous_standby_names", "archive_mode",
        "max_wal_size", "shared_buffers", "statement_timeout", "idle_in_transaction_session_timeout",
    ]

    public init() {}

    /// A setting that is a number; nil where the server has no such setting.
    public func number(_ name: String) -> Int64? { settings[name].flatMap { Int64($0) } }
}

extension LogConnection {
    /// Looks at the server that this connection is to.
    ///
    /// - Throws: `database` where it can't be asked.
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
            // In the unit that the server keeps each in, such as pages of 8 kB, milliseconds, megabytes.
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
