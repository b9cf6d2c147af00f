/// Makes the connections of a client: one implementation for each kind of platform, and one for tests.
public protocol RealtimeTransport: Sendable {
    /// Begins to connect and returns at once.
    ///
    /// - Parameter observer: is told what happens, on a thread of the transport's, one event after the other: `opened` at
    ///   most once, then what is received, in order, and `closed` exactly once and last (also after `close()`). It must
    ///   return soon, and may call the channel.
    func connect(
        to address: RealtimeAddress, _ observer: @escaping @Sendable (TransportEvent) -> Void
    ) -> any RealtimeChannel
}

/// One connection of a transport. All calls may come from any thread and return at once; those after the end do nothing.
public protocol RealtimeChannel: Sendable {
    /// Sends one text message, after all those before it. What is not sent when the connection ends is dropped.
    func send(_ text: [UInt8])
    /// Says goodbye behind what is still to be sent, and ends the connection even if the peer doesn't answer.
    func close()
    /// So many bytes of what was received have been dealt with. A transport stops reading while much of what it has told
    /// its observer has not been: each `received` must be followed by this call, with the message's number of bytes.
    func processed(_ byteCount: Int)
}

/// What a transport tells of one connection.
public enum TransportEvent: Sendable, Equatable {
    /// The upgrade to WebSocket has been answered; what is sent from now on goes out.
    case opened
    /// One whole text message.
    case received([UInt8])
    /// Bytes have come, but no whole message yet: the peer lives. Told at most once a second.
    case progress
    case closed(TransportClosure)
}

/// Why a connection ended, or did not come about.
public enum TransportClosure: Error, Sendable, Equatable, CustomStringConvertible {
    /// `close()` was called.
    case byUs
    /// The peer closed, with the code and the reason of its close frame (1005 and "" without one).
    case byPeer(code: UInt16, reason: String)
    /// The name is not known, or nobody takes connections there.
    case unreachable(String)
    /// The peer's certificate is not accepted, or TLS failed otherwise.
    case insecure(String)
    /// The peer answered the upgrade with something else, by this status (0: it was no HTTP).
    case refused(status: Int, String)
    /// The connection broke.
    case broken(String)
    /// The peer broke the rules of the WebSocket protocol, or went over a limit.
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

/// Where a realtime connection goes.
public struct RealtimeAddress: Sendable, Hashable {
    /// A name or an IP address (IPv6 without brackets).
    public var host: String
    public var port: UInt16
    /// TLS, with the certificate checked against `host`.
    public var isSecure: Bool
    /// The path and query of the upgrade request.
    public var target: String

    public init(host: String, port: UInt16, isSecure: Bool, target: String) {
        self.host = host
        self.port = port
        self.isSecure = isSecure
        self.target = target
    }

    /// The request's `Host` header: without the port where it is the usual one.
    public var hostHeader: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }
}
