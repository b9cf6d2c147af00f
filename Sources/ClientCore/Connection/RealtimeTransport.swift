/// Opens the connections of a client: one implementation for each kind of platform, and one for tests.
public protocol RealtimeTransport: Sendable {
    /// Begins to connect and returns at once.
    ///
    /// - Parameter observer: is called with each event, on a thread of the transport, one after another: `opened` at
    ///   most once, then the received messages in order, and `closed` exactly once and last (also after `close()`). It
    ///   must return soon, and may call the channel.
    func connect(
        to address: RealtimeAddress, _ observer: @escaping @Sendable (TransportEvent) -> Void
    ) -> any RealtimeChannel
}

/// One connection of a transport. All calls may come from any thread and return at once; those after the end do
/// nothing.
public protocol RealtimeChannel: Sendable {
    /// Sends one text message, after all those before it. Messages not sent when the connection ends are dropped.
    func send(_ text: [UInt8])
    /// Sends a close frame after the messages still to be sent, and ends the connection even if the peer does not
    /// answer.
    func close()
    /// Reports that so many received bytes have been processed. A transport stops reading while its observer has not
    /// processed much of the data: each `received` must be followed by this call, with the message's number of bytes.
    func processed(_ byteCount: Int)
}

/// An event of one connection.
public enum TransportEvent: Sendable, Equatable {
    /// The upgrade to WebSocket has been answered; messages are transmitted from now on.
    case opened
    /// One whole text message.
    case received([UInt8])
    /// Data has arrived, but no complete message yet: the peer is alive. Reported at most once a second.
    ///
    /// - Parameter unfinished: the bytes of the incomplete message so far.
    case progress(unfinished: Int)
    case closed(TransportClosure)
}

/// The reason why a connection ended or could not be opened.
public enum TransportClosure: Error, Sendable, Equatable, CustomStringConvertible {
    /// `close()` was called.
    case byUs
    /// The peer closed, with the code and the reason of its close frame (1005 and "" without one).
    case byPeer(code: UInt16, reason: String)
    /// The host name is unknown, or no server accepts connections there.
    case unreachable(String)
    /// The peer's certificate is not accepted, or TLS failed otherwise.
    case insecure(String)
    /// The peer did not answer the upgrade with WebSocket, but with this status (0: the answer was not HTTP).
    case refused(status: Int, String)
    /// The connection broke.
    case broken(String)
    /// The peer violated the WebSocket protocol, or exceeded a limit.
    case violation(String)

    public var description: String {
        switch self {
        case .byUs: "closed by the client"
        case .byPeer(let code, let reason): "closed by the server (\(code)\(reason.isEmpty ? "" : ": " + reason))"
        case .unreachable(let text): "the server can't be reached: \(text)"
        case .insecure(let text): "no secure connection: \(text)"
        case .refused(let status, let text): "the server refused the connection (status \(status)): \(text)"
        case .broken(let text): "the connection broke: \(text)"
        case .violation(let text): "the server broke the WebSocket protocol: \(text)"
        }
    }
}

/// The address of a realtime connection.
public struct RealtimeAddress: Sendable, Hashable {
    /// A host name or an IP address (IPv6 without brackets).
    public var host: String
    public var port: UInt16
    /// Whether the connection uses TLS, with the certificate checked against `host`.
    public var isSecure: Bool
    /// The path and query of the upgrade request.
    public var target: String

    public init(host: String, port: UInt16, isSecure: Bool, target: String) {
        self.host = host
        self.port = port
        self.isSecure = isSecure
        self.target = target
    }

    /// The request's `Host` header, without the port if it is the default one.
    public var hostHeader: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }
}
