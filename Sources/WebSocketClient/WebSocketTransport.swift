public import ClientCore
internal import Runtime
internal import Synchronization
public import TLS

/// Realtime connections over the system's sockets: one thread does the input and output of all of them. Names are
/// looked up on separate threads, and a server's addresses are tried in parallel, with staggered starts.
///
/// An app's databases share one transport. Any thread. When it is deallocated, its connections end.
public final class WebSocketTransport: RealtimeTransport {
    private let settings: TransportSettings
    private let trust: TLSTrust
    private let loop = Mutex<ClientLoop?>(nil)

    /// Reads the trusted authorities; the thread starts with the first connection.
    public init(_ settings: TransportSettings = TransportSettings()) throws(TLSError) {
        self.settings = settings
        trust = try TLSTrust(settings.authorities)
    }

    deinit {
        loop.withLock { $0?.stop() }
    }

    /// Begins to connect. The observer is called on the transport's thread.
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
            let reason = "the system has no more file descriptors or threads"
            let thread = Thread(name: "pathmirror-net", isVital: false) { observer(.closed(.unreachable(reason))) }
            if thread.isStarted { thread.detach() } else { observer(.closed(.unreachable(reason))) }
        }
        return channel
    }
}

/// The settings of a transport.
public struct TransportSettings: Sendable {
    /// The certificate authorities that connections over TLS trust.
    public var authorities: TLSTrust.Authorities = .system
    /// Additional headers of the upgrade request, such as `User-Agent`. Headers that contain a line end are omitted.
    public var headers: [(name: String, value: String)] = []
    /// Maximum size of a server's message in bytes.
    public var maxMessageBytes = 64 << 20
    /// Maximum number of bytes of messages that were delivered and not processed; above it, reading stops. Each message
    /// counts for 256 bytes more than its size.
    public var maxUnprocessedBytes = 8 << 20
    /// The timeout from `connect` until the connection is open, in milliseconds.
    public var openTimeout: Int64 = 30_000
    /// The delay after which the next of a server's addresses is tried in parallel, in milliseconds.
    public var nextAddressAfter: Int64 = 250
    /// How long to wait for the peer's close frame, in milliseconds.
    public var closeTimeout: Int64 = 3_000
    /// How long a peer may leave sent bytes unacknowledged before the connection ends, in milliseconds.
    public var unacknowledgedTimeout: Int64 = 60_000

    public init() {}
}
