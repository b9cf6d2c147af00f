import Postgres

/// Namespaces that follow an upstream database: the table `follow`.
extension LogConnection {
    /// Makes a namespace follow an upstream, and creates the namespace if there is none with this name.
    ///
    /// Waits for the head's lock: a write that began before is committed before, and no write of a client is committed
    /// afterwards.
    ///
    /// - Parameters:
    ///   - credentials: JSON text that names the credentials and contains no secret.
    ///   - maxBytesPerDay: the number of bytes after which the follower stops for the rest of the day.
    ///   - replaces: whether the namespace may have data, which the upstream's data then replaces.
    /// - Throws: `misplaced` if the namespace lives in another database. Nothing is changed in that case.
    public func addFollow(
        namespace name: String, upstream: String, credentials: String, keepRules: Bool, maxBytesPerDay: Int64?,
        replaces: Bool
    ) throws(LogStoreError) -> FollowAddition {
        guard let record = try namespace(named: name, creating: true) else { throw .unknownNamespace(name) }
        let addition = try inTransaction { () throws(PostgresError) -> FollowAddition? in
            let known = try postgres.execute(
                "select from pathmirror.namespace where id = $1 and name = $2 for update",
                [.int8(record.id), .text(name)])
            guard known.rowCount == 1 else { return nil }
            if let obstacle = try followObstacle(name, replaces: replaces) { return obstacle }
            var row: PostgresParameters = [.int8(record.id), .text(upstream)]
            row.appendJSON(Array(credentials.utf8))
            row.appendBool(keepRules)
            row.append(Self.int8(maxBytesPerDay))
            _ = try postgres.execute(
                """
                insert into pathmirror.follow (namespace_id, upstream, credentials, keep_rules, max_bytes_per_day)
                values ($1, $2, $3, $4, $5)
                """, row)
            _ = try postgres.execute(
                "update pathmirror.namespace set is_following = true where id = $1", [.int8(record.id)])
            return .added(record.id)
        }
        guard let addition else { throw .unknownNamespace(name) }
        return addition
    }

    /// Returns why a namespace can't begin to follow, or nil if it can or doesn't exist. A check before work whose result
    /// `addFollow` would refuse: the answer may change at any time.
    public func obstacle(
        toFollowing name: String, replaces: Bool
    ) throws(LogStoreError) -> FollowAddition? {
        try translated { () throws(PostgresError) in try followObstacle(name, replaces: replaces) }
    }

    private func followObstacle(_ name: String, replaces: Bool) throws(PostgresError) -> FollowAddition? {
        let rows = try postgres.execute(
            """
            select is_following, exists (select from pathmirror.node where namespace_id = namespace.id)
            from pathmirror.namespace where name = $1
            """, [.text(name)])
        guard rows.rowCount == 1 else { return nil }
        if try rows.bool(0, 0) { return .alreadyFollows }
        return try rows.bool(0, 1) && !replaces ? .hasData : nil
    }

    /// Ends following: the namespace keeps its data and rules, and clients may write to it.
    /// Returns false if the namespace does not follow.
    public func removeFollow(_ namespace: Int64) throws(LogStoreError) -> Bool {
        try inTransaction { () throws(PostgresError) in
            // The head's lock first, as in `addFollow`.
            _ = try postgres.execute(
                "update pathmirror.namespace set is_following = false where id = $1", [.int8(namespace)])
            return try postgres.execute("delete from pathmirror.follow where namespace_id = $1", [.int8(namespace)])
                .affectedRows == 1
        }
    }

    /// Pauses following or resumes it. Returns false if the namespace does not follow.
    public func setFollowPaused(_ namespace: Int64, _ isPaused: Bool) throws(LogStoreError) -> Bool {
        try changesFollow(
            """
            update pathmirror.follow
            set is_paused = $2, fence = case when $2 then null else fence end, gateway = case when $2 then null else gateway end,
                state = case when $2 then 'paused' when is_paused then 'connecting' else state end,
                message = case when $2 or is_paused then null else message end,
                connected_since = case when $2 then null else connected_since end
            where namespace_id = $1
            """, [.int8(namespace), .bool(isPaused)])
    }

    /// Makes a gateway the only one that may commit upstream messages, and sets the position to 0. Later batches under
    /// the observed fence fail.
    ///
    /// Does not wait: a locked row belongs to a transaction of the gateway that follows, or of an administrator.
    ///
    /// - Parameters:
    ///   - observed: the row as it was read. A row that was paused or replaced since then is not claimed.
    ///   - fence: 16 random bytes. A fence is used by one claim only.
    ///   - gateway: the gateway, for people.
    public func claimFollow(
        _ observed: FollowRecord, fence: [UInt8], gateway: String
    ) throws(LogStoreError) -> FollowClaim {
        let observedFence = observed.fence.map { PostgresValue.uuid($0) } ?? .null(.uuid)
        let isClaimed = try changesFollow(
            """
            update pathmirror.follow set fence = $3, gateway = $4, heartbeat = heartbeat + 1, position = 0
            where namespace_id = (
                select namespace_id from pathmirror.follow
                where namespace_id = $1 and fence is not distinct from $2 and not is_paused
                    and coalesce(\(Self.milliseconds("created_at")), 0) = $5
                for update skip locked)
            """, [.int8(observed.namespaceID), observedFence, .uuid(fence), .text(gateway), .int8(observed.createdAt)])
        if isClaimed { return .claimed }
        return try hasFence(observed.namespaceID, observedFence, createdAt: observed.createdAt) ? .isLocked : .isOthers
    }

    /// Stores the follower's status, and increases the heartbeat. Returns false if the fence is no longer the
    /// namespace's.
    ///
    /// Does not wait: while a batch under the fence holds the row's lock, nothing is stored.
    public func reportFollow(
        _ namespace: Int64, fence: [UInt8], _ status: FollowStatus
    ) throws(LogStoreError) -> Bool {
        let isStored = try changesFollow(
            """
            update pathmirror.follow
            set heartbeat = heartbeat + 1, state = $3, message = $4,
                state_since = case when state = $3 and state_since is not null then state_since else now() end,
                connected_since = to_timestamp($5::bigint / 1000.0), last_message_at = to_timestamp($6::bigint / 1000.0),
                received_on = $7::text::date, received_today = $8, received = $9, entries = $10, resyncs = $11,
                last_resync_seq = $12, lag_milliseconds = $13, parts = $14::text::json, rules_digest = $15,
                reported_at = now()
            where namespace_id = (
                select namespace_id from pathmirror.follow where namespace_id = $1 and fence = $2 for update skip locked)
            """,
            [
                .int8(namespace), .uuid(fence), .text(status.state), Self.text(status.message),
                Self.int8(status.connectedSince), Self.int8(status.lastMessageAt), Self.text(status.receivedOn),
                .int8(status.receivedToday), .int8(status.received), .int8(status.entries), .int8(status.resyncs),
                Self.int8(status.lastResyncSeq), Self.int8(status.lagMilliseconds), Self.text(status.parts),
                Self.text(status.rulesDigest),
            ])
        if isStored { return true }
        return try hasFence(namespace, .uuid(fence))
    }

    /// Whether the committed row has a fence. Doesn't wait for locks.
    ///
    /// - Parameter createdAt: the time at which the namespace began to follow; nil for any.
    private func hasFence(
        _ namespace: Int64, _ fence: PostgresValue, createdAt: Int64? = nil
    ) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                select from pathmirror.follow
                where namespace_id = $1 and fence is not distinct from $2 and not is_paused
                    and ($3::bigint is null or coalesce(\(Self.milliseconds("created_at")), 0) = $3)
                """, [.int8(namespace), fence, Self.int8(createdAt)]
            ).rowCount == 1
        }
    }

    /// A time as milliseconds since 1970, in SQL; null for an infinite time, which only an administrator can have stored.
    fileprivate static func milliseconds(_ column: String) -> String {
        "(extract(epoch from case when isfinite(\(column)) then \(column) end) * 1000)::bigint"
    }

    /// The age of a time in milliseconds by the database's clock, in SQL; null for an infinite time.
    fileprivate static func age(_ column: String) -> String {
        "(extract(epoch from now() - case when isfinite(\(column)) then \(column) end) * 1000)::bigint"
    }

    private static func int8(_ value: Int64?) -> PostgresValue { value.map { .int8($0) } ?? .null(.int8) }
    private static func text(_ value: String?) -> PostgresValue { value.map { .text($0) } ?? .null(.text) }

    /// Ends a gateway's right to commit upstream messages, so that another gateway can claim it at once.
    /// Returns false if the fence is no longer the namespace's.
    public func releaseFollow(_ namespace: Int64, fence: [UInt8]) throws(LogStoreError) -> Bool {
        try changesFollow(
            "update pathmirror.follow set fence = null, gateway = null where namespace_id = $1 and fence = $2",
            [.int8(namespace), .uuid(fence)])
    }

    /// Returns the number of the last committed upstream message under a fence. Doesn't wait for a batch that is being
    /// committed under the fence: its number is then unknown.
    public func followPosition(_ namespace: Int64, fence: [UInt8]) throws(LogStoreError) -> FollowPositionLookup {
        let position = try translated { () throws(PostgresError) -> Int64? in
            let rows = try postgres.execute(
                "select position from pathmirror.follow where namespace_id = $1 and fence = $2 for share skip locked",
                [.int8(namespace), .uuid(fence)])
            return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
        }
        if let position { return .committed(position) }
        return try hasFence(namespace, .uuid(fence)) ? .isLocked : .isOthers
    }

    private func changesFollow(_ sql: String, _ parameters: PostgresParameters) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in try postgres.execute(sql, parameters).affectedRows == 1 }
    }
}

/// Reading the table `follow`.
extension LogConnection {
    /// Returns all namespaces that follow an upstream, ordered by name. Leaves out dormant copies of namespaces.
    public func follows() throws(LogStoreError) -> [FollowRecord] {
        try follows("namespace.name not like '.%'", [])
    }

    /// Returns what a namespace follows, or nil if it follows nothing.
    public func follow(_ name: String) throws(LogStoreError) -> FollowRecord? {
        try follows("namespace.name = $1", [.text(name)]).first
    }

    private func follows(
        _ condition: String, _ parameters: PostgresParameters
    ) throws(LogStoreError) -> [FollowRecord] {
        func milliseconds(_ column: String) -> String { Self.milliseconds(column) }
        return try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select namespace.id, namespace.name, upstream, credentials::text, keep_rules, max_bytes_per_day, is_paused,
                    coalesce(\(milliseconds("follow.created_at")), 0), fence, gateway, heartbeat, position, state, message,
                    \(milliseconds("connected_since")), \(milliseconds("last_message_at")), received_on::text,
                    received_today, received, entries, resyncs, last_resync_seq, lag_milliseconds, parts::text, rules_digest,
                    \(milliseconds("state_since")), \(Self.age("reported_at")), coalesce(\(Self.age("follow.created_at")), 0)
                from pathmirror.follow join pathmirror.namespace on namespace.id = follow.namespace_id
                where \(condition) order by namespace.name
                """, parameters)
            return try (0..<rows.rowCount).map { row throws(PostgresError) in try FollowRecord(rows, row) }
        }
    }
}

extension FollowRecord {
    fileprivate init(_ rows: PostgresResult, _ row: Int) throws(PostgresError) {
        func number(_ column: Int) throws(PostgresError) -> Int64? {
            rows.isNull(row, column) ? nil : try rows.int64(row, column)
        }
        func text(_ column: Int) throws(PostgresError) -> String? {
            rows.isNull(row, column) ? nil : try rows.string(row, column)
        }
        var status = FollowStatus()
        status.state = try rows.string(row, 12)
        status.message = try text(13)
        status.connectedSince = try number(14)
        status.lastMessageAt = try number(15)
        status.receivedOn = try text(16)
        status.receivedToday = try rows.int64(row, 17)
        status.received = try rows.int64(row, 18)
        status.entries = try rows.int64(row, 19)
        status.resyncs = try rows.int64(row, 20)
        status.lastResyncSeq = try number(21)
        status.lagMilliseconds = try number(22)
        status.parts = try text(23)
        status.rulesDigest = try text(24)
        self.init(
            namespaceID: try rows.int64(row, 0), namespace: try rows.string(row, 1), upstream: try rows.string(row, 2),
            credentials: try rows.string(row, 3), keepRules: try rows.bool(row, 4), maxBytesPerDay: try number(5),
            isPaused: try rows.bool(row, 6), createdAt: try rows.int64(row, 7),
            fence: rows.isNull(row, 8) ? nil : try rows.bytes(row, 8), gateway: try text(9),
            heartbeat: try rows.int64(row, 10), position: try rows.int64(row, 11), status: status,
            stateSince: try number(25), reportAge: try number(26), age: try rows.int64(row, 27))
    }
}
