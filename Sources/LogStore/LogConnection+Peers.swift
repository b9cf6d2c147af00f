import Postgres

/// What one gateway tells the others of its database.
public struct PeerMessage: Sendable, Equatable {
    public let sender: String
    public let text: String

    /// Nil when it is longer than PostgreSQL carries (8,000 bytes with the sender).
    public init?(sender: String, text: String) {
        guard sender.utf8.count + 1 + text.utf8.count < 8_000 else { return nil }
        self.sender = sender
        self.text = text
    }

    init?(payload: String) {
        guard let space = payload.firstIndex(of: " ") else { return nil }
        sender = String(payload[..<space])
        text = String(payload[payload.index(after: space)...])
    }

    var payload: String { "\(sender) \(text)" }
}

extension LogConnection {
    static let peerChannel = "pathmirror_peer"

    /// Tells all gateways that listen, this one among them: at most once each, and the messages of one connection in
    /// their order.
    public func tellPeers(_ message: PeerMessage) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("select pg_notify($1, $2)", [.text(Self.peerChannel), .text(message.payload)])
        }
    }
}
