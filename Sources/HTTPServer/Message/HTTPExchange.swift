/// The exchange of one request and its response. Belongs to its loop's thread; other threads hold its `reference`.
///
/// Answer with `respond`, or with `startStream` and `send`, or take over the connection with `upgrade`. All calls on an
/// exchange that has ended do nothing, so late answers need no special handling.
public final class HTTPExchange {
    /// Unique in the server.
    public let id: UInt64
    /// Called when a stream's output queue becomes empty. Never called synchronously from a method of the exchange.
    public var onDrain: (() -> Void)?
    /// Called exactly once if the connection ends before the response is complete. For a stream or an upgraded
    /// connection, called exactly once at its end, for any reason. Never called synchronously from a method of the
    /// exchange.
    public var onClose: (() -> Void)?

    /// Whether a peer that ends its input while it waits for the answer counts as disconnected. Otherwise it may have
    /// closed only its sending side, as HTTP permits, and gets its answer.
    public var endsWithInput = false

    /// Headers of every answer, before the answer's own headers. Set them before answering.
    public var commonHeaders: HTTPHeaders = [:]

    /// Whether the request was HEAD: responses are sent without their body.
    public let isHead: Bool
    private let minorVersion: Int
    private var connection: Connection?
    private let eventLoop: EventLoop
    private let connectionID: UInt64
    private var onInput: ((UnsafeRawBufferPointer) -> Void)?

    init(connection: Connection, id: UInt64, isHead: Bool, minorVersion: Int) {
        self.id = id
        self.isHead = isHead
        self.minorVersion = minorVersion
        self.connection = connection
        eventLoop = connection.service.loop
        connectionID = connection.id
    }

    /// The loop that the exchange belongs to.
    public var loop: EventLoop { eventLoop }

    /// A reference for other threads.
    public var reference: ExchangeReference {
        ExchangeReference(loop: eventLoop, connection: connectionID, exchange: id)
    }

    /// The namespace whose account is charged for unsent output; namespaces share the output budget. Empty if it is
    /// unknown.
    public var namespace: String {
        get { connection?.account.namespace ?? "" }
        set { connection?.account.namespace = newValue }
    }

    /// Whether output can still be sent.
    public var isOpen: Bool { connection.map { $0.phase == .answering || $0.phase == .streaming } ?? false }

    // MARK: Ordinary responses

    /// Sends a complete answer. The server adds Content-Length, Date and, if necessary, Connection. The body of HEAD is
    /// counted but not sent; 204 and 304 have none. If the output budget (`HTTPServerSettings.output`) is exhausted, a
    /// large response is answered with 503 instead.
    ///
    /// - Returns: false if the response is not sent: the output budget is exhausted, or the exchange has ended.
    @discardableResult
    public func respond(status: Int, headers: HTTPHeaders = [:], body: [UInt8] = []) -> Bool {
        connection?.answer(
            status: status, common: commonHeaders, headers: headers, body: body, isHead: isHead,
            minorVersion: minorVersion) ?? false
    }

    /// Sends a complete answer whose body is shared.
    @discardableResult
    public func respond(status: Int, headers: HTTPHeaders = [:], body: SharedBytes) -> Bool {
        respond(status: status, headers: headers, body: body.bytes)
    }

    // MARK: Streams

    /// Begins a response without Content-Length that ends when the connection is closed. Send its content with `send`.
    ///
    /// The peer's input is discarded; the end of its input counts as a disconnection. For HEAD only the head is sent.
    public func startStream(status: Int = 200, headers: HTTPHeaders = [:]) {
        connection?.beginStream(status: status, common: commonHeaders, headers: headers, isUpgrade: false)
        if isHead { close() }
    }

    /// Answers 101 with these headers (`Upgrade: …`, without Connection) and takes over the connection: `send` writes
    /// raw bytes, and `onInput` receives the peer's bytes, first those that followed the request. The bytes are valid
    /// during the call only.
    public func upgrade(headers: HTTPHeaders, onInput: @escaping (UnsafeRawBufferPointer) -> Void) {
        self.onInput = onInput
        connection?.beginStream(status: 101, common: commonHeaders, headers: headers, isUpgrade: true)
    }

    /// Sends bytes on a stream: at once if the queue is empty, else after the queue. The bytes are not copied.
    ///
    /// The queue has no limit of its own: check `queuedOutputBytes`, and call `dropQueuedOutput` if a reader is slow.
    /// The server disconnects a reader that reads no byte for `writeStallTimeoutMilliseconds`, or that exceeds the
    /// output budget (`HTTPServerSettings.output`).
    public func send(_ bytes: SharedBytes) {
        connection?.send(bytes)
    }

    /// Bytes accepted by `send` that the kernel has not accepted yet.
    public var queuedOutputBytes: Int { connection?.output.byteCount ?? 0 }

    /// Removes and returns every queued chunk of which no byte was sent, in order. A partly sent chunk stays in the
    /// queue, so the peer never receives half a chunk. `onDrain` is not called for dropped chunks.
    @discardableResult
    public func dropQueuedOutput() -> [SharedBytes] {
        connection?.dropUnsent() ?? []
    }

    /// Ends a stream once all queued output is sent, or the peer reads nothing for `writeStallTimeoutMilliseconds`. An
    /// unanswered exchange is disconnected without a response.
    public func close() {
        guard let connection else { return }
        if connection.phase == .streaming {
            connection.endAfterFlush(lingers: true)
        } else if connection.phase == .answering {
            connection.die()
        }
    }

    // MARK: Called by the connection

    func inputReceived(_ bytes: UnsafeRawBufferPointer) {
        onInput?(bytes)
    }

    func drained() {
        onDrain?()
    }

    /// Detaches the exchange from the connection after its response, because the connection continues without it.
    func finish() {
        connection = nil
        onDrain = nil
        onClose = nil
        onInput = nil
    }

    func connectionClosed() {
        let closed = onClose
        finish()
        closed?()
    }
}

/// Identifies an exchange across threads. To reach the exchange, call `loop.post` and, there, `loop.exchange(for:)`; it
/// may have ended by then.
public struct ExchangeReference: Sendable, Hashable {
    /// The loop that the exchange belongs to.
    public let loop: EventLoop
    let connection: UInt64
    let exchange: UInt64

    /// Calls `work` with the exchange on its loop, or `otherwise` there if the exchange has ended by then. Any thread.
    public func perform(
        otherwise: @escaping @Sendable () -> Void = {}, _ work: @escaping @Sendable (HTTPExchange) -> Void
    ) {
        loop.post {
            if let exchange = loop.exchange(for: self) { work(exchange) } else { otherwise() }
        }
    }

    public static func == (left: ExchangeReference, right: ExchangeReference) -> Bool {
        left.exchange == right.exchange && left.connection == right.connection && left.loop === right.loop
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(exchange)
    }
}
