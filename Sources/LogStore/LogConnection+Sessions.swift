import Postgres
import Tokens
public import Tree

/// The onDisconnect operations of a session, as stored in the database.
public struct StoredSession: Sendable, Equatable {
    public let namespace: Int64
    public let namespaceName: String
    public let id: String
    public let operations: [[Change]]
    public let isAdmin: Bool
    public let auth: Node
    /// The origin of the operations, for the log.
    public let origin: Origin?

    public init(
        namespace: Int64, namespaceName: String, id: String, operations: [[Change]], isAdmin: Bool, auth: Node,
        origin: Origin?
    ) {
        self.namespace = namespace
        self.namespaceName = namespaceName
        self.id = id
        self.operations = operations
        self.isAdmin = isAdmin
        self.auth = auth
        self.origin = origin
    }
}

/// A session's row as it was read. The claim fails if the row has changed since.
public struct SessionClaim: Sendable, Equatable {
    public let session: String
    /// The lease under which the session's gateway saved the row.
    public let gateway: [UInt8]
    /// The number of the save that was read, or nil to claim the row regardless of its content.
    public let save: Int64?

    public init(session: String, gateway: [UInt8], save: Int64?) {
        self.session = session
        self.gateway = gateway
        self.save = save
    }
}

/// A save of a session's operations.
public struct SessionSave: Sendable {
    public let session: StoredSession
    /// Increases with each save of a session.
    public let number: Int64
    /// Whether no save of the session has succeeded yet. The first save inserts the row.
    public let isFirst: Bool

    public init(_ session: StoredSession, number: Int64, isFirst: Bool) {
        self.session = session
        self.number = number
        self.isFirst = isFirst
    }
}

extension LogConnection {
    /// The outcome of a save.
    public enum SaveResult: String, Sendable {
        case saved
        /// The lease has ended, or the gateway uses another connection by now.
        case lost
        /// The session's row does not exist any more because its operations were executed, or the namespace does not
        /// exist.
        case ended
    }

    /// Stores a session's operations if the lease is valid and this is its latest connection.
    public func saveSession(_ save: SessionSave, _ lease: GatewayLease) throws(LogStoreError) -> SaveResult {
        let session = save.session
        let operations =
            Array("[".utf8) + session.operations.map(ChangeCodec.encode).joined(separator: [UInt8(ascii: ",")]) + [0x5D]
        var auth = JSONWriter(form: .export)
        auth.raw("{\"admin\":")
        auth.write(.bool(session.isAdmin))
        auth.raw(",\"auth\":")
        auth.write(session.auth)
        let origin = session.origin.map { Array(",\"origin\":".utf8) + $0.json } ?? []
        let authText = auth.bytes + origin + [0x7D]
        let result = try translated { () throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.appendInt8(session.namespace)
            parameters.appendText(session.id)
            parameters.appendUUID(lease.gateway)
            parameters.appendInt8(lease.connection)
            parameters.appendInt8(save.number)
            parameters.appendBool(save.isFirst)
            parameters.appendJSON(operations)
            parameters.appendJSON(authText)
            return try postgres.execute(
                "select pathmirror.save_session($1, $2, $3, $4, $5, $6, $7, $8)", parameters
            ).string(0, 0)
        }
        guard let known = SaveResult(rawValue: result) else { throw .corrupt("saving a session returned \(result)") }
        return known
    }

    /// Returns the number of the save that is stored for a session, or nil if the session has no row under this lease.
    public func savedNumber(
        _ namespace: Int64, _ id: String, gateway: [UInt8]
    ) throws(LogStoreError) -> Int64? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select save from pathmirror.session
                where namespace_id = $1 and session_id = $2 and gateway_id = $3
                """, [.int8(namespace), .text(id), .uuid(gateway)])
            return rows.rowCount > 0 ? try rows.int64(0, 0) : nil
        }
    }

    /// Returns the step that deletes a session's row in a batch's transaction. It raises PM002 if the row is gone or
    /// has changed.
    func claimStep(_ claim: SessionClaim, of namespace: Int64) -> PipelineStep {
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        parameters.appendText(claim.session)
        parameters.appendUUID(claim.gateway)
        if let save = claim.save { parameters.appendInt8(save) } else { parameters.appendNull(.int8) }
        return .query("select pathmirror.claim_session($1, $2, $3, $4)", parameters)
    }

    /// Deletes the row of a session without operations to execute, if the row has not changed since it was read.
    public func forgetSession(_ namespace: Int64, _ claim: SessionClaim) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.appendInt8(namespace)
            parameters.appendText(claim.session)
            parameters.appendUUID(claim.gateway)
            if let save = claim.save { parameters.appendInt8(save) } else { parameters.appendNull(.int8) }
            _ = try postgres.execute(
                """
                delete from pathmirror.session
                where namespace_id = $1 and session_id = $2 and gateway_id = $3 and ($4 is null or save = $4)
                """, parameters)
        }
    }

    /// Returns the stored operations of a session, or nil if it has none.
    public func session(
        _ namespace: Int64, _ id: String
    ) throws(LogStoreError) -> (session: StoredSession, claim: SessionClaim)? {
        try sessions("s.namespace_id = $1 and s.session_id = $2", [.int8(namespace), .text(id)]).first
    }

    /// Returns the sessions of gateways whose lease has ended, at most `limit`.
    public func orphanedSessions(
        limit: Int
    ) throws(LogStoreError) -> [(session: StoredSession, claim: SessionClaim)] {
        try sessions(
            "not exists (select from pathmirror.gateway g where g.id = s.gateway_id) order by session_id limit $1",
            [.int8(Int64(limit))])
    }

    private func sessions(
        _ condition: String, _ parameters: PostgresParameters
    ) throws(LogStoreError) -> [(session: StoredSession, claim: SessionClaim)] {
        do {
            let rows = try postgres.execute(
                """
                select s.namespace_id, n.name, s.session_id, s.orders::text, s.auth::text, s.gateway_id, s.save
                from pathmirror.session s join pathmirror.namespace n on n.id = s.namespace_id
                -- What sessions of a copy, or of what was put aside, want done is not done here.
                where n.name not like '.%' and \(condition)
                """, parameters)
            var found: [(session: StoredSession, claim: SessionClaim)] = []
            for row in 0..<rows.rowCount {
                let operations = try (RawJSON(try rows.bytes(row, 3)).elements ?? []).map {
                    try ChangeCodec.decode($0.text)
                }
                // The claims may have keys that are not valid keys of the tree.
                let text = try rows.bytes(row, 4)
                let auth = Node(try ClaimsReader.value(text))
                let origin = RawJSON(text).members?.first { $0.key == "origin" }
                let id = try rows.string(row, 2)
                found.append(
                    (
                        StoredSession(
                            namespace: try rows.int64(row, 0), namespaceName: try rows.string(row, 1), id: id,
                            operations: operations, isAdmin: auth.child(Key("admin")) == .bool(true),
                            auth: auth.child(Key("auth")), origin: origin.map { Origin(json: Array($0.value.bytes)) }),
                        SessionClaim(session: id, gateway: try rows.bytes(row, 5), save: try rows.int64(row, 6))
                    ))
            }
            return found
        } catch {
            throw LogStoreError(error)
        }
    }
}
