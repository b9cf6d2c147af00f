import Tree

/// A control message of a realtime server (reference: rtdb-protocol 1.2 to 1.5, 1.8).
public enum ServerControl: Sendable, Equatable {
    /// The first message of a connection.
    case hello(ServerHello)
    /// The client is to connect to this host instead; while it upgrades its transport, it is to keep the old one.
    case reset(host: String)
    /// The client is never to connect again.
    case shutdown(reason: String)
    /// What the server found wrong: for the client's log.
    case error(String)
    /// The answer to a ping.
    case pong
    /// A polling client's socket may take over.
    case upgradeOffer
    /// Nothing more comes by polling.
    case endOfTransmission
    /// A type that is not known here; clients log it and go on.
    case unknown(type: String)
}

/// What a realtime server says first (reference: rtdb-protocol 1.3).
public struct ServerHello: Sendable, Equatable {
    /// The server's clock in milliseconds since 1970.
    public let timestamp: Int64
    /// The protocol's version; `5` is the only one there is.
    public let version: String
    /// The host that the client is to use for its next connection. A client should follow it only where it is told to.
    public let host: String
    /// The session's id, which the client names when it connects again.
    public let session: String
    /// Whether the server is a gateway that speaks its extension with this client.
    public let isExtended: Bool

    public init(
        timestamp: Int64, version: String = "5", host: String, session: String, isExtended: Bool = false
    ) {
        self.isExtended = isExtended
        self.timestamp = timestamp
        self.version = version
        self.host = host
        self.session = session
    }
}

extension ServerControl {
    /// The message's text.
    var text: [UInt8] {
        switch self {
        case .hello(let hello):
            return ServerMessage.hello(
                timestamp: hello.timestamp, host: hello.host, session: hello.session, version: hello.version,
                isExtended: hello.isExtended)
        case .pong: return ServerMessage.pong
        case .upgradeOffer: return ServerMessage.upgradeOffer
        case .endOfTransmission: return ServerMessage.endOfTransmission
        case .reset(let host): return ServerMessage.reset(host: host)
        case .shutdown(let reason): return Self.control("s", reason)
        case .error(let text): return Self.control("e", text)
        case .unknown(let type): return Self.control(type, nil)
        }
    }

    private static func control(_ type: String, _ payload: String?) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 64)
        writer.raw("{\"t\":\"c\",\"d\":{\"t\":")
        writer.writeString(type)
        writer.raw(",\"d\":")
        if let payload { writer.writeString(payload) } else { writer.raw("null") }
        writer.raw("}}")
        return writer.bytes
    }
}
