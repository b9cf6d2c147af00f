import HTTPServer
import Synchronization
import Wire

/// What waits on a socket of another loop, and what waits to be taken from it.
final class SocketBacklog: Sendable {
    private let posted = Atomic<Int>(0)
    private let queued = Atomic<Int>(0)
    private let received = Atomic<Int>(0)

    /// Bytes that the client has not taken yet, about.
    var outgoing: Int { posted.load(ordering: .relaxed) + queued.load(ordering: .relaxed) }

    func willSend(_ count: Int) { posted.add(count, ordering: .relaxed) }

    /// On the socket's loop: what was posted is in its queue, which is now so long.
    func sent(_ count: Int, queued length: Int) {
        queued.store(length, ordering: .relaxed)
        posted.subtract(count, ordering: .relaxed)
    }

    func drained() { queued.store(0, ordering: .relaxed) }

    /// Counts bytes from the client that wait for the session's loop. False when they are too many.
    func receives(_ count: Int, limit: Int) -> Bool {
        received.add(count, ordering: .relaxed).newValue <= limit
    }

    func taken(_ count: Int) { received.subtract(count, ordering: .relaxed) }
}

/// A realtime client on a WebSocket whose connection another loop may serve: a session that began with polling stays on
/// the loop where it began. Belongs to the session's loop.
final class RelayedWebSocketTransport: RealtimeTransport {
    let socket: ExchangeReference
    let backlog: SocketBacklog
    private var isClosed = false
    /// What is to be sent once the client is ready for it.
    private var held: [SharedBytes]?
    private var heldBytes = 0
    private var heldTicks = 0
    /// Called every now and then while nothing waits: the socket tells of its own queue only, and a client may have been
    /// taken for slow for what was held here, or on its way to the socket.
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

    static func frames(for messages: [[UInt8]]) -> SharedBytes? { WebSocketTransport.frames(for: messages) }

    /// Sends nothing until `release`.
    func hold() { held = [] }

    func release() {
        guard let frames = held else { return }
        held = nil
        heldBytes = 0
        for frame in frames { send(frames: frame) }
    }

    /// A client that has not become ready by now won't say so any more.
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
