import Tree

/// A control message of a realtime server (reference: rtdb-protocol 1.2 to 1.5, 1.8).
public enum ServerControl: Sendable, Equatable {
    /// The first message of a connection.
    case hello(ServerHello)
    /// The client must connect to this host instead. During a transport upgrade, it must keep the old transport.
    case reset(host: String)
    /// The client must never connect again.
    case shutdown(reason: String)
    /// A description of an error, for the client's log.
    case error(String)
    /// The answer to a ping.
    case pong
    /// The client may switch from polling to its socket.
    case upgradeOffer
    /// The end of the messages by polling.
    case endOfTransmission
    /// An unknown type; clients log it and continue.
    case unknown(type: String)
}

/// The first message of a realtime server (reference: rtdb-protocol 1.3).
public struct ServerHello: Sendable, Equatable {
    /// The server's clock in milliseconds since 1970.
    public let timestamp: Int64
    /// The protocol's version; `5` is the only one.
    public let version: String
    /// The host for the client's next connection. A client should follow it only if it is configured to.
    public let host: String
    /// The session's id, which the client names when it reconnects.
    public let session: String
    /// Whether the server is a gateway that uses its extension with this client.
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
