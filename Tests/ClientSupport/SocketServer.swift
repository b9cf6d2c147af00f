import Crypto
import Glibc
import Runtime
import Synchronization

/// A WebSocket server whose bytes a test determines. Each connection completes its handshake, and is then passed to a
/// closure on its own thread.
public final class SocketServer: Sendable {
    public let port: UInt16
    private let listener: Int32
    private struct State {
        var threads: [Thread] = []
        var peers: [SocketPeer] = []
        var isStopping = false
    }
    private let state = Mutex(State())

    /// - Parameter serve: Handles a connection, which ends when the closure returns.
    public init(_ serve: @escaping @Sendable (SocketPeer) -> Void) throws {
        (listener, port) = try LocalSocket.listen()
        let thread = Thread(name: "socket-server") { [listener, weak self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0, let self else { return }
                LocalSocket.setNoDelay(client)
                let peer = SocketPeer(client)
                let thread = Thread(name: "socket-peer") {
                    if peer.shakeHands() { serve(peer) }
                    peer.close()
                }
                let isStopping = self.state.withLock { state in
                    state.threads.append(thread)
                    state.peers.append(peer)
                    return state.isStopping
                }
                if isStopping { peer.shutDown() }
            }
        }
        state.withLock { $0.threads.append(thread) }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        let (threads, peers) = state.withLock { state in
            state.isStopping = true
            return (state.threads, state.peers)
        }
        for peer in peers { peer.shutDown() }
        // The first thread accepts no more clients. When it has ended, the list of the threads that it started is
        // complete.
        threads.first?.join()
        let late = state.withLock { ($0.threads, $0.peers) }
        for peer in late.1 { peer.shutDown() }
        for thread in late.0.dropFirst() { thread.join() }
        close(listener)
    }
}

/// One connection of a `SocketServer`. Used by its own thread, except `shutDown` and `send`, which any thread may call.
public final class SocketPeer: Sendable {
    private let descriptor: Int32
    private struct State {
        var rest: [UInt8] = []
        var isClosed = false
        var head = ""
    }
    private let state = Mutex(State())

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    /// The head of the request.
    public var head: String { state.withLock { $0.head } }

    func shakeHands() -> Bool {
        var bytes: [UInt8] = []
        while !bytes.contains(Array("\r\n\r\n".utf8)) {
            guard let more = LocalSocket.receive(from: descriptor) else { return false }
            bytes += more
        }
        let text = String(decoding: bytes, as: UTF8.self)
        state.withLock { $0.head = text }
        let name = "Sec-WebSocket-Key: "
        guard let line = text.split(separator: "\r\n").first(where: { $0.hasPrefix(name) }) else { return false }
        let key = String(line.dropFirst(name.count))
        let digest = Digest.sha1(Array("\(key)258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8))
        let accept = String(decoding: Base64.encode(digest), as: UTF8.self)
        return send(
            Array(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: \(accept)\r\n\r\n"
                    .utf8))
    }

    /// Sends raw bytes. Returns false if the client has closed the connection.
    @discardableResult
    public func send(_ bytes: [UInt8]) -> Bool { LocalSocket.send(bytes[...], to: descriptor) }

    /// Sends a frame, or the first of several if `isLast` is false.
    @discardableResult
    public func sendFrame(opcode: UInt8 = 1, isLast: Bool = true, _ payload: [UInt8]) -> Bool {
        send(Self.frame(opcode: opcode, isLast: isLast, payload))
    }

    public static func frame(opcode: UInt8 = 1, isLast: Bool = true, _ payload: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [(isLast ? 0x80 : 0) | opcode]
        switch payload.count {
        case ..<126: bytes.append(UInt8(payload.count))
        case ..<65_536: bytes += [126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default:
            bytes.append(127)
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: payload.count >> shift))
            }
        }
        return bytes + payload
    }

    /// Returns the next frame, unmasked, or nil at the end of input. The frame must be masked.
    public func receive() -> (opcode: UInt8, payload: [UInt8])? {
        guard let first = take(2), first[1] & 0x80 != 0 else { return nil }
        var length = Int(first[1] & 0x7F)
        if length >= 126 {
            guard let more = take(length == 126 ? 2 : 8) else { return nil }
            length = more.reduce(0) { $0 << 8 | Int($1) }
        }
        guard let mask = take(4), var payload = take(length) else { return nil }
        for index in payload.indices { payload[index] ^= mask[index & 3] }
        return (first[0] & 0x0F, payload)
    }

    /// Returns the next text. Skips other frames.
    public func receiveText() -> [UInt8]? {
        while let frame = receive() { if frame.opcode == 1 { return frame.payload } }
        return nil
    }

    private func take(_ count: Int) -> [UInt8]? {
        while state.withLock({ $0.rest.count }) < count {
            guard let more = LocalSocket.receive(from: descriptor) else { return nil }
            state.withLock { $0.rest += more }
        }
        return state.withLock { state in
            defer { state.rest.removeFirst(count) }
            return Array(state.rest.prefix(count))
        }
    }

    /// Waits until the client has closed the connection. Discards all input.
    public func waitForEnd() { while LocalSocket.receive(from: descriptor) != nil {} }

    public func shutDown() { state.withLock { if !$0.isClosed { shutdown(descriptor, Int32(SHUT_RDWR)) } } }

    func close() {
        state.withLock { state in
            guard !state.isClosed else { return }
            state.isClosed = true
            Glibc.close(descriptor)
        }
    }
}
