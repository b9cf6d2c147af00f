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

    /// What authenticates messages between the gateways of this database; nil where this role may not read the key.
    public func peerSeal() throws(LogStoreError) -> PeerSeal? {
        let rows = try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                select case when has_table_privilege('pathmirror.gateway_key', 'select')
                    then (select key from pathmirror.gateway_key) end
                """)
        }
        return try translated { () throws(PostgresError) in
            rows.isNull(0, 0) ? nil : PeerSeal(Secret(try rows.bytes(0, 0)))
        }
    }
}
