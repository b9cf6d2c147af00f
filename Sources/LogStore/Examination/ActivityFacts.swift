import Postgres

/// Transactions that are open for long: they keep PostgreSQL from cleaning up behind writes.
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

    /// Those in this database, longest first, at most ten. Without what they execute: that may hold data.
    public var transactions: [Transaction] = []
    /// Transactions of this database that were prepared for a two-phase commit and wait.
    public var prepared: Int64 = 0
    public var oldestPreparedSeconds: Int64 = 0

    public init() {}
}

extension LogConnection {
    /// Looks for transactions that have been open for longer than that.
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
