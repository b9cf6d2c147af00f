import HTTPServer
import Synchronization
import Wire

/// The bytes that wait to be sent on a socket of another loop, and the received bytes that wait for the session's loop.
final class SocketBacklog: Sendable {
    private let posted = Atomic<Int>(0)
    private let queued = Atomic<Int>(0)
    private let received = Atomic<Int>(0)

    /// The approximate number of bytes that the client has not read yet.
    var outgoing: Int { posted.load(ordering: .relaxed) + queued.load(ordering: .relaxed) }

    func willSend(_ count: Int) { posted.add(count, ordering: .relaxed) }

    /// Records, on the socket's loop, that `count` posted bytes have moved to its queue, whose new length is `length`.
    func sent(_ count: Int, queued length: Int) {
        queued.store(length, ordering: .relaxed)
        posted.subtract(count, ordering: .relaxed)
    }

    func drained() { queued.store(0, ordering: .relaxed) }

    /// Counts bytes from the client that wait for the session's loop. Returns false if there are too many.
    func receives(_ count: Int, limit: Int) -> Bool {
        received.add(count, ordering: .relaxed).newValue <= limit
    }

    func taken(_ count: Int) { received.subtract(count, ordering: .relaxed) }
}

/// A realtime client on a WebSocket whose connection may be on another loop: a session that began with polling stays on
/// the loop where it began. Belongs to the session's loop.
final class RelayedWebSocketTransport: SessionTransport {
    let socket: ExchangeReference
    let backlog: SocketBacklog
    private var isClosed = false
    /// Output that waits until the client is ready for it.
    private var held: [SharedBytes]?
    private var heldBytes = 0
    private var heldTicks = 0
    /// Called at each sweep while no output is waiting. The socket reports only its own queue, but output that was held
    /// here, or was on its way to the socket, may have made a listen conflate.
    var onIdle: (() -> Void)?

    init(_ socket: ExchangeReference, _ backlog: SocketBacklog) {
        self.socket = socket
        self.backlog = backlog
    }

    static var isWebSocket: Bool { true }

    var queuedBytes: Int { backlog.outgoing + heldBytes }

    func send(_ message: [UInt8]) -> Bool {
        guard let frames = Self.frames(for: [message]) else { return false }
        send(frames: frames)
        return true
    }

    func send(frames: SharedBytes) {
        guard !isClosed else { return }
        let count = frames.bytes.count
        if held != nil {
            heldBytes += count
            held?.append(frames)
            return
        }
        backlog.willSend(count)
        socket.perform { [backlog] exchange in
            exchange.send(frames)
            backlog.sent(count, queued: exchange.queuedOutputBytes)
        }
    }

    static func frames(for messages: [[UInt8]]) -> SharedBytes? { WebSocketSessionTransport.frames(for: messages) }

    /// Holds all output until `release`.
    func hold() { held = [] }

    func release() {
        guard let frames = held else { return }
        held = nil
        heldBytes = 0
        for frame in frames { send(frames: frame) }
    }

    /// Releases held output after a few sweeps, because a client that is not ready by then will never report it.
    func tick() {
        guard held != nil else {
            if queuedBytes == 0 { onIdle?() }
            return
        }
        heldTicks += 1
        if heldTicks > 2 { release() }
    }

    func ping() {
        if !isClosed, held == nil, backlog.outgoing == 0 { send(frames: SharedBytes(WebSocketFrame.ping())) }
    }

    func close() {
        release()
        guard !isClosed else { return }
        isClosed = true
        socket.perform { exchange in
            exchange.send(SharedBytes(WebSocketFrame.close(1001)))
            exchange.close()
        }
    }

    func abandon() {
        isClosed = true
        held = nil
        socket.perform { exchange in
            exchange.dropQueuedOutput()
            exchange.close()
        }
    }
}
