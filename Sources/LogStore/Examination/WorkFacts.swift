import Postgres

/// The state of gateways, mirrors, feeds and followers as they report it in the database.
public struct WorkFacts: Sendable, Equatable {
    public struct Reader: Sendable, Equatable {
        public let namespace: String
        public let name: String
        public let state: String
        public let lagSeconds: Int64
        /// Conversion errors of a mirror; dead letters of a feed.
        public let failures: Int64
        /// The time in seconds for which a feed has held back pruning beyond its retention. 0 for mirrors.
        public let holdsBackSeconds: Int64

        public init(
            namespace: String, name: String, state: String, lagSeconds: Int64, failures: Int64, holdsBackSeconds: Int64
        ) {
            self.namespace = namespace
            self.name = name
            self.state = state
            self.lagSeconds = lagSeconds
            self.failures = failures
            self.holdsBackSeconds = holdsBackSeconds
        }
    }

    public struct Follower: Sendable, Equatable {
        public let namespace: String
        /// The state in the view `follow_status`.
        public let state: String
        /// The problem and its remedy, as the follower reported them last.
        public let message: String?
        /// The time in seconds since the state began.
        public let stateSeconds: Int64
        /// The time in seconds since the last message of the upstream.
        public let silentSeconds: Int64
        public let receivedToday: Int64
        /// Nil without a limit.
        public let maxBytesPerDay: Int64?

        public init(
            namespace: String, state: String, message: String?, stateSeconds: Int64, silentSeconds: Int64,
            receivedToday: Int64, maxBytesPerDay: Int64?
        ) {
            self.namespace = namespace
            self.state = state
            self.message = message
            self.stateSeconds = stateSeconds
            self.silentSeconds = silentSeconds
            self.receivedToday = receivedToday
            self.maxBytesPerDay = maxBytesPerDay
        }
    }

    public var namespaces: Int64 = 0
    /// Some of the namespaces without rules of their own: none were set, or they were removed.
    public var withoutRules: [String] = []
    /// Namespaces whose newest entry is ahead of the server's clock, with the difference in seconds.
    public var aheadOfClock: [String: Int64] = [:]
    /// The number of gateways whose heartbeat moved within the last 30 seconds by the server's clock, and the number of
    /// the other gateways.
    public var liveGateways: Int64 = 0
    public var silentGateways: Int64 = 0
    public var mirrors: [Reader] = []
    public var feeds: [Reader] = []
    public var followers: [Follower] = []

    public init() {}
}

extension LogConnection {
    /// Reads the state of namespaces, gateways, mirrors, feeds and followers.
    public func workFacts() throws(LogStoreError) -> WorkFacts {
        try translated { () throws(PostgresError) in
            var facts = WorkFacts()
            facts.namespaces = try postgres.execute("select count(*) from pathmirror.namespace").int64(0, 0)
            let bare = try postgres.execute(
                """
                select name from pathmirror.namespace
                where name not like '.%'
                    and coalesce((
                        select source from pathmirror.rule where rule.namespace_id = namespace.id order by seq desc limit 1
                    ), '') = ''
                order by id limit 10
                """)
            for row in 0..<bare.rowCount { facts.withoutRules.append(try bare.string(row, 0)) }
            // Only the newest 1,000 namespaces with entries: each costs a lookup in the log.
            let ahead = try postgres.execute(
                """
                select namespace.name, extract(epoch from log.committed_at - clock_timestamp())::bigint
                from (select * from pathmirror.namespace where head > 0 order by id desc limit 1000) as namespace
                join pathmirror.log on log.namespace_id = namespace.id and log.seq = namespace.head
                where log.committed_at > clock_timestamp() + interval '1 second' order by 1 limit 10
                """)
            for row in 0..<ahead.rowCount { facts.aheadOfClock[try ahead.string(row, 0)] = try ahead.int64(row, 1) }
            let gateways = try postgres.execute(
                """
                select count(*) filter (where seen_at >= now() - interval '30 seconds'),
                    count(*) filter (where seen_at < now() - interval '30 seconds')
                from pathmirror.gateway
                """)
            facts.liveGateways = try gateways.int64(0, 0)
            facts.silentGateways = try gateways.int64(0, 1)
            facts.mirrors = try readers("errors + unkept_errors", "0", "pathmirror.mirror_status")
            facts.feeds = try readers("dead_letters", "holds_back_seconds", "pathmirror.feed_status")
            facts.followers = try followers()
            return facts
        }
    }

    private func followers() throws(PostgresError) -> [WorkFacts.Follower] {
        let rows = try postgres.execute(
            """
            select namespace, state, message, extract(epoch from now() - coalesce(state_since, created_at))::bigint,
                extract(epoch from now() - coalesce(last_message_at, created_at))::bigint, received_today, max_bytes_per_day
            from pathmirror.follow_status order by namespace
            """)
        var found: [WorkFacts.Follower] = []
        for row in 0..<rows.rowCount {
            found.append(
                .init(
                    namespace: try rows.string(row, 0), state: try rows.string(row, 1),
                    message: rows.isNull(row, 2) ? nil : try rows.string(row, 2), stateSeconds: try rows.int64(row, 3),
                    silentSeconds: try rows.int64(row, 4), receivedToday: try rows.int64(row, 5),
                    maxBytesPerDay: rows.isNull(row, 6) ? nil : try rows.int64(row, 6)))
        }
        return found
    }

    private func readers(
        _ failures: String, _ holdsBack: String, _ view: String
    ) throws(PostgresError) -> [WorkFacts.Reader] {
        let rows = try postgres.execute(
            """
            select namespace, name, state, coalesce(extract(epoch from lag), 0)::bigint, coalesce(\(failures), 0)::bigint,
                coalesce(\(holdsBack), 0)::bigint
            from \(view) order by namespace, name
            """)
        var found: [WorkFacts.Reader] = []
        for row in 0..<rows.rowCount {
            found.append(
                .init(
                    namespace: try rows.string(row, 0), name: try rows.string(row, 1), state: try rows.string(row, 2),
                    lagSeconds: try rows.int64(row, 3), failures: try rows.int64(row, 4),
                    holdsBackSeconds: try rows.int64(row, 5)))
        }
        return found
    }
}
