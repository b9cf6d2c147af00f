public import TLS

/// How a transport connects.
public struct TransportSettings: Sendable {
    /// Whom connections over TLS trust.
    public var authorities: TLSTrust.Authorities = .system
    /// More headers of the upgrade request, such as `User-Agent`. Those that hold a line end are left out.
    public var headers: [(name: String, value: String)] = []
    /// The longest message that is taken from a server, in bytes.
    public var maxMessageBytes = 64 << 20
    /// Reading stops while so many bytes of messages have been told of and not been processed; each counts for 256 more
    /// than it has.
    public var maxUnprocessedBytes = 8 << 20
    /// From `connect` until the connection is open, in milliseconds.
    public var openTimeout: Int64 = 30_000
    /// The next of a server's addresses is tried beside the first when that does not answer for so long (milliseconds).
    public var nextAddressAfter: Int64 = 250
    /// How long the peer's goodbye is waited for, in milliseconds.
    public var closeTimeout: Int64 = 3_000
    /// A peer that acknowledges nothing of what was sent for so long is gone, in milliseconds.
    public var unacknowledgedTimeout: Int64 = 60_000

    public init() {}
}
