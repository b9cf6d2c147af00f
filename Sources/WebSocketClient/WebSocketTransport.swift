public import ClientCore
internal import Runtime
internal import Synchronization
public import TLS

/// Realtime connections over sockets of the system: one thread does the input and output of all of them. Names are looked
/// up on threads of their own, and a server's addresses are tried one beside the other.
///
/// An app's databases share one. Any thread. When it is let go of, its connections end.
public final class WebSocketTransport: RealtimeTransport {
    private let settings: TransportSettings
    private let trust: TLSTrust
    private let loop = Mutex<ClientLoop?>(nil)

    /// Reads the authorities that are trusted; the thread begins with the first connection.
    public init(_ settings: TransportSettings = TransportSettings()) throws(TLSError) {
        self.settings = settings
        trust = try TLSTrust(settings.authorities)
    }

    deinit {
        loop.withLock { $0?.stop() }
    }

    /// Begins to connect; the observer is called on the transport's thread.
    public func connect(
        to address: RealtimeAddress, _ observer: @escaping @Sendable (TransportEvent) -> Void
    ) -> any RealtimeChannel {
        let loop = loop.withLock { loop in
            if loop == nil { loop = ClientLoop(settings, trust: trust) }
            return loop
        }
        let channel = WebSocketChannel(loop)
        let isTaken = loop?.call { loop in
            loop.begin(ConnectionRunner(loop, channel, address, observer))
        }
        if isTaken != true {
            let reason = "the system has no more descriptors or threads"
            let thread = Thread(name: "pathmirror-net", isVital: false) { observer(.closed(.unreachable(reason))) }
            if thread.isStarted { thread.detach() } else { observer(.closed(.unreachable(reason))) }
        }
        return channel
    }
}

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
