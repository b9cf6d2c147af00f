import Crypto
import Postgres
public import Tree

/// A session's onDisconnect orders, as the database keeps them.
public struct StoredSession: Sendable, Equatable {
    public let namespace: Int64
    public let namespaceName: String
    public let id: String
    public let orders: [[Change]]
    public let isAdmin: Bool
    public let auth: Node
    /// Who asked for it, for the log.
    public let origin: Origin?

    public init(
        namespace: Int64, namespaceName: String, id: String, orders: [[Change]], isAdmin: Bool, auth: Node,
        origin: Origin?
    ) {
        self.namespace = namespace
        self.namespaceName = namespaceName
        self.id = id
        self.orders = orders
        self.isAdmin = isAdmin
        self.auth = auth
        self.origin = origin
    }
}

extension LogSession {
    /// Says that a gateway is alive. False when others took it for dead meanwhile, and its sessions' orders with it.
    public func heartbeat(_ gateway: [UInt8]) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try connection.execute("update pathmirror.gateway set seen_at = now() where id = $1", [.uuid(gateway)])
                .affectedRows == 1
        }
    }

    public func registerGateway(_ gateway: [UInt8]) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try connection.execute(
                "insert into pathmirror.gateway (id) values ($1) on conflict (id) do update set seen_at = now()",
                [.uuid(gateway)])
        }
    }

    /// The gateway has ended in order, without sessions.
    public func forgetGateway(_ gateway: [UInt8]) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try connection.execute("delete from pathmirror.gateway where id = $1", [.uuid(gateway)])
        }
    }

    /// Keeps a session's orders; with none, forgets the session.
    public func saveSession(
        _ session: StoredSession, gateway: [UInt8]
    ) throws(LogStoreError) {
        if session.orders.isEmpty { return try forgetSession(session.namespace, session.id) }
        let orders =
            Array("[".utf8) + session.orders.map(ChangeCodec.encode).joined(separator: [UInt8(ascii: ",")]) + [0x5D]
        var auth = JSONWriter(form: .export)
        auth.raw("{\"admin\":")
        auth.write(.bool(session.isAdmin))
        auth.raw(",\"auth\":")
        auth.write(session.auth)
        let origin = session.origin.map { Array(",\"origin\":".utf8) + $0.json } ?? []
        let authText = auth.bytes + origin + [0x7D]
        try translated { () throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.appendInt8(session.namespace)
            parameters.appendText(session.id)
            parameters.appendUUID(gateway)
            parameters.appendJSON(orders)
            parameters.appendJSON(authText)
            _ = try connection.execute(
                """
                insert into pathmirror.session (namespace_id, session_id, gateway_id, orders, auth)
                values ($1, $2, $3, $4, $5) on conflict (namespace_id, session_id)
                do update set gateway_id = excluded.gateway_id, orders = excluded.orders, auth = excluded.auth
                """, parameters)
        }
    }

    public func forgetSession(_ namespace: Int64, _ id: String) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try connection.execute(
                "delete from pathmirror.session where namespace_id = $1 and session_id = $2",
                [.int8(namespace), .text(id)])
        }
    }

    /// A session's orders, if it has any.
    public func session(_ namespace: Int64, _ id: String) throws(LogStoreError) -> StoredSession? {
        try sessions("s.namespace_id = $1 and s.session_id = $2", [.int8(namespace), .text(id)]).first
    }

    /// Takes gateways that were not seen for so long for dead, and returns the sessions of dead gateways, at most `limit`.
    public func orphanedSessions(
        unseenForMilliseconds: Int64, limit: Int
    ) throws(LogStoreError) -> [StoredSession] {
        try translated { () throws(PostgresError) in
            _ = try connection.execute(
                "delete from pathmirror.gateway where seen_at < now() - $1 * interval '1 millisecond'",
                [.int8(unseenForMilliseconds)])
        }
        return try sessions(
            "not exists (select from pathmirror.gateway g where g.id = s.gateway_id) order by session_id limit $1",
            [.int8(Int64(limit))])
    }

    private func sessions(
        _ condition: String, _ parameters: PostgresParameters
    ) throws(LogStoreError) -> [StoredSession] {
        do {
            let rows = try connection.execute(
                """
                select s.namespace_id, n.name, s.session_id, s.orders::text, s.auth::text
                from pathmirror.session s join pathmirror.namespace n on n.id = s.namespace_id where \(condition)
                """, parameters)
            var found: [StoredSession] = []
            for row in 0..<rows.rowCount {
                let orders = try (RawJSON(try rows.bytes(row, 3)).elements ?? []).map {
                    try ChangeCodec.decode($0.text)
                }
                // Its keys may be what no key of the database can be.
                let text = try rows.bytes(row, 4)
                let auth = Node(try ClaimsReader.value(text))
                let origin = RawJSON(text).members?.first { $0.key == "origin" }
                found.append(
                    StoredSession(
                        namespace: try rows.int64(row, 0), namespaceName: try rows.string(row, 1),
                        id: try rows.string(row, 2), orders: orders, isAdmin: auth.child(Key("admin")) == .bool(true),
                        auth: auth.child(Key("auth")), origin: origin.map { Origin(json: Array($0.value.bytes)) }))
            }
            return found
        } catch {
            throw LogStoreError(error)
        }
    }
}
