import HTTPServer

/// How messages get to a realtime client: over a WebSocket, or by long polling. Belongs to its loop's thread.
protocol RealtimeTransport: AnyObject {
    /// Bytes that the client has not taken yet.
    var queuedBytes: Int { get }
    /// Sends one message of the protocol. False when it is longer than clients can take.
    func send(_ message: [UInt8]) -> Bool
    /// Sends what `frames(for:)` made of messages: shared by all clients that are sent the same.
    func send(frames: SharedBytes)
    /// Has what is sent from now on wait for `sendGathered`, so that it goes out in one piece. False if that holds already.
    func gather() -> Bool
    func sendGathered()
    /// Makes of messages what this kind of transport sends; nil when one is longer than clients can take.
    static func frames(for messages: [[UInt8]]) -> SharedBytes?
    /// Whether `frames(for:)` makes WebSocket frames.
    static var isWebSocket: Bool { get }
    /// Asks for a sign of life, where the transport has a way to.
    func ping()
    /// Ends the connection, once what is queued has been sent.
    func close()
    /// Ends the connection at once: the client doesn't take anything any more.
    func abandon()
    /// What is sent from here on must not come together with what was sent before.
    func separate()
    /// Called every now and then.
    func tick()
}

extension RealtimeTransport {
    func separate() {}
    func tick() {}
}

extension RealtimeTransport {
    func gather() -> Bool { false }
    func sendGathered() {}
}
