import Postgres
import Runtime

extension LogConnection {
    static let peerChannel = "pathmirror_peer"

    /// Sends a message to all gateways that listen, this one among them: each hears it at most once, and the messages of one connection in
    /// their order.
    public func tellPeers(_ message: PeerMessage) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("select pg_notify($1, $2)", [.text(Self.peerChannel), .text(message.payload)])
        }
    }

    /// Reads the key that authenticates messages between the gateways of this database; nil if this role may not read the key.
    public func peerSeal() throws(LogStoreError) -> PeerSeal? {
        try translated { () throws(PostgresError) -> PeerSeal? in
            // PostgreSQL checks the privileges of all tables of a statement before it evaluates any part of the statement: the question has to
            // be a statement of its own.
            let privilege = try postgres.execute(
                """
                select case when has_schema_privilege('pathmirror', 'usage')
                    then has_table_privilege('pathmirror.gateway_key', 'select') else false end
                """)
            guard try privilege.bool(0, 0) else { return nil }
            let rows = try postgres.execute("select key from pathmirror.gateway_key")
            return rows.rowCount == 0 ? nil : PeerSeal(Secret(try rows.bytes(0, 0)))
        }
    }
}
