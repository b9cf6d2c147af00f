import Postgres

/// What the database takes of its disk, and how far PostgreSQL has kept up with cleaning it.
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
    /// The write-ahead log's files; nil where this user may not know.
    public var walBytes: Int64?
    /// Where the server keeps its data; nil where this user may not know.
    public var dataDirectory: String?
    /// Whether the server is on this machine: reached by a Unix socket.
    public var isOnThisMachine = false
    /// How many transactions ago the oldest row was written that has not been frozen. At two billion PostgreSQL stops.
    public var transactionAge: Int64 = 0
    /// Tables of schema `pathmirror` that have more dead rows than living ones, and many.
    public var bloated: [Table] = []
    /// Entries in the logs of all namespaces.
    public var entries: Int64 = 0

    public init() {}
}

extension LogConnection {
    /// Looks at sizes. Costs no walk through tables.
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
