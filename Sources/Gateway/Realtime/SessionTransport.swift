import HTTPServer

/// Sends messages to a realtime client: over a WebSocket, or by long polling. Belongs to its loop's thread.
protocol SessionTransport: AnyObject {
    /// The number of bytes that the client has not read yet.
    var queuedBytes: Int { get }
    /// Sends one message of the protocol. Returns false if it exceeds the length that clients accept.
    func send(_ message: [UInt8]) -> Bool
    /// Sends the result of `frames(for:)`, which all clients that receive the same messages share.
    func send(frames: SharedBytes)
    /// Makes later output wait for `sendCollected`, so that it goes out in one piece. Returns false if output waits
    /// already.
    func beginCollecting() -> Bool
    func sendCollected()
    /// Encodes messages for this kind of transport; returns nil if one exceeds the length that clients accept.
    static func frames(for messages: [[UInt8]]) -> SharedBytes?
    /// Whether `frames(for:)` creates WebSocket frames.
    static var isWebSocket: Bool { get }
    /// Requests an answer that shows that the client is alive, if the transport can.
    func ping()
    /// Ends the connection, once the queued bytes have been sent.
    func close()
    /// Ends the connection at once, because the client does not read any more.
    func abandon()
    /// Makes sure that later messages do not arrive together with earlier ones.
    func separate()
    /// Called at each sweep of the hub.
    func tick()
}

extension SessionTransport {
    func separate() {}
    func tick() {}
}

extension SessionTransport {
    func beginCollecting() -> Bool { false }
    func sendCollected() {}
}
