import Postgres

/// The sessions that keep gateways from writing the tables of mirrors.
public struct MirrorLockFacts: Sendable, Equatable {
    public struct Lock: Sendable, Equatable {
        public let namespace: String
        public let mirror: String
        public let pid: Int64
        /// Empty if this user may not see other users' sessions.
        public let user: String
        public let application: String
        /// The lock mode of PostgreSQL, such as `ShareLock`.
        public let mode: String
        /// The time since the transaction began, in seconds; nil if this user may not see it.
        public let seconds: Int64?

        public init(
            namespace: String, mirror: String, pid: Int64, user: String, application: String, mode: String,
            seconds: Int64?
        ) {
            self.namespace = namespace
            self.mirror = mirror
            self.pid = pid
            self.user = user
            self.application = application
            self.mode = mode
            self.seconds = seconds
        }
    }

    /// The locks, the oldest first, at most ten.
    public var locks: [Lock] = []

    public init() {}
}

extension LogConnection {
    /// Reads the locks on tables of mirrors in this database that conflict with writes, of transactions that have been open
    /// for longer than `seconds`.
    public func mirrorLockFacts(longerThanSeconds seconds: Int64) throws(LogStoreError) -> MirrorLockFacts {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select namespace.name, mirror.name, lock.pid::bigint, coalesce(activity.usename::text, ''),
                    coalesce(activity.application_name, ''), lock.mode,
                    extract(epoch from clock_timestamp() - activity.xact_start)::bigint
                from pg_locks as lock
                join pg_class as class on class.oid = lock.relation
                join pg_namespace as schema on schema.oid = class.relnamespace
                join pathmirror.mirror
                    on mirror.definition ->> 'table' = format('%s.%s', schema.nspname, class.relname)
                        and mirror.target is null
                join pathmirror.namespace on namespace.id = mirror.namespace_id
                left join pg_stat_activity as activity on activity.pid = lock.pid
                where lock.locktype = 'relation' and lock.granted and lock.pid <> pg_backend_pid()
                    and lock.database = (select oid from pg_database where datname = current_database())
                    and lock.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
                    and coalesce(activity.xact_start < clock_timestamp() - $1 * interval '1 second', true)
                order by activity.xact_start nulls last, 1, 2 limit 10
                """, [.int8(seconds)])
            var facts = MirrorLockFacts()
            for row in 0..<rows.rowCount {
                facts.locks.append(
                    .init(
                        namespace: try rows.string(row, 0), mirror: try rows.string(row, 1),
                        pid: try rows.int64(row, 2), user: try rows.string(row, 3),
                        application: try rows.string(row, 4), mode: try rows.string(row, 5),
                        seconds: rows.isNull(row, 6) ? nil : try rows.int64(row, 6)))
            }
            return facts
        }
    }
}
