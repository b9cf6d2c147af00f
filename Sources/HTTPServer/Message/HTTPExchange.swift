/// One request's way to its response. Belongs to its loop's thread; other threads hold its `reference`.
///
/// Answer with `respond`, or with `startStream` and `send`, or take the connection over with `upgrade`. Whatever is
/// called on an exchange that has ended does nothing, so an answer that comes too late needs no care.
public final class HTTPExchange {
    /// Unique in the server.
    public let id: UInt64
    /// Called when a stream's queue, having held something, went empty. Never from inside a call of yours.
    public var onDrain: (() -> Void)?
    /// Called exactly once if the connection ends before the response is complete; for a stream or an upgraded
    /// connection: exactly once when it has ended, whoever ended it. Never from inside a call of yours.
    public var onClose: (() -> Void)?

    /// Whether a peer that ends its input while it waits for the answer counts as gone. Else it may have closed only its
    /// side, as HTTP allows, and is answered.
    public var endsWithInput = false

    /// Headers of whatever answer is given, before the answer's own. Set them before it is.
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

    /// The loop it belongs to.
    public var loop: EventLoop { eventLoop }

    /// Its name for other threads.
    public var reference: ExchangeReference {
        ExchangeReference(loop: eventLoop, connection: connectionID, exchange: id)
    }

    /// The namespace on whose account output waits: namespaces share what may wait. Empty where that is not known.
    public var namespace: String {
        get { connection?.account.namespace ?? "" }
        set { connection?.account.namespace = newValue }
    }

    /// Whether something can still be sent.
    public var isOpen: Bool { connection.map { $0.phase == .answering || $0.phase == .streaming } ?? false }

    // MARK: Ordinary responses

    /// Answers completely. Content-Length, Date and, where needed, Connection are added. The body of HEAD is not sent
    /// but counted; 204 and 304 have none. Where too many bytes of responses wait for their peers (`HTTPServerSettings.output`), a large
    /// response is answered with 503 instead.
    ///
    /// - Returns: False if the response is not sent: there is no room for it, or the exchange has ended.
    @discardableResult
    public func respond(status: Int, headers: HTTPHeaders = [:], body: [UInt8] = []) -> Bool {
        connection?.answer(
            status: status, common: commonHeaders, headers: headers, body: body, isHead: isHead,
            minorVersion: minorVersion) ?? false
    }

    /// The same with a body that is shared with others.
    @discardableResult
    public func respond(status: Int, headers: HTTPHeaders = [:], body: SharedBytes) -> Bool {
        respond(status: status, headers: headers, body: body.bytes)
    }

    // MARK: Streams

    /// Begins a response without Content-Length that ends when the connection is closed. Then `send`.
    ///
    /// Input of the peer is thrown away; its end of input counts as its going away. For HEAD only the head is sent.
    public func startStream(status: Int = 200, headers: HTTPHeaders = [:]) {
        connection?.beginStream(status: status, common: commonHeaders, headers: headers, isUpgrade: false)
        if isHead { close() }
    }

    /// Answers 101 with these headers (`Upgrade: …`, without Connection) and takes the connection over: `send` writes
    /// raw bytes, `onInput` gets what the peer sends, first what it sent behind the request. The bytes are valid during
    /// the call only.
    public func upgrade(headers: HTTPHeaders, onInput: @escaping (UnsafeRawBufferPointer) -> Void) {
        self.onInput = onInput
        connection?.beginStream(status: 101, common: commonHeaders, headers: headers, isUpgrade: true)
    }

    /// Sends on a stream: at once where nothing is queued, else behind the queue. Nothing is copied.
    ///
    /// The queue has no bound of its own: watch `queuedOutputBytes`, and `dropQueuedOutput` when a reader is slow. A
    /// reader that takes nothing at all for `writeStallTimeoutMilliseconds` is cut off, and so is one for which there is no room
    /// (`HTTPServerSettings.output`).
    public func send(_ bytes: SharedBytes) {
        connection?.send(bytes)
    }

    /// Bytes accepted by `send` that the kernel has not taken yet.
    public var queuedOutputBytes: Int { connection?.output.byteCount ?? 0 }

    /// Takes every chunk of which no byte was sent out of the queue; these, in order. One that is partly sent stays
    /// whole, so the peer never sees half a chunk. `onDrain` is not called for what was dropped.
    @discardableResult
    public func dropQueuedOutput() -> [SharedBytes] {
        connection?.dropUnsent() ?? []
    }

    /// Ends a stream once everything queued is sent (or the peer takes nothing for `writeStallTimeoutMilliseconds`). An exchange
    /// not yet answered is cut off without a response.
    public func close() {
        guard let connection else { return }
        if connection.phase == .streaming {
            connection.endAfterFlush(lingers: true)
        } else if connection.phase == .answering {
            connection.die()
        }
    }

    // MARK: From the connection

    func inputReceived(_ bytes: UnsafeRawBufferPointer) {
        onInput?(bytes)
    }

    func drained() {
        onDrain?()
    }

    /// The response is handed over; the connection goes on without this exchange.
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

/// Names an exchange across threads. Get back to it with `loop.post` and, there, `loop.exchange(for:)`; the exchange
/// may have ended by then.
public struct ExchangeReference: Sendable, Hashable {
    /// The loop that the exchange belongs to.
    public let loop: EventLoop
    let connection: UInt64
    let exchange: UInt64

    /// Does `work` with the exchange on its loop, or `otherwise` there if the exchange has ended by then. Any thread.
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
