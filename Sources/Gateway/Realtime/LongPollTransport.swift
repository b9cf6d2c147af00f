import HTTPServer
import Wire

/// A realtime client that polls (reference: rtdb-protocol 1.8): messages wait until a request fetches them. Belongs to
/// the loop of its session; requests arrive on any loop.
final class LongPollTransport: SessionTransport {
    /// Proves that a request belongs to the session.
    let password: String
    private var messages: [[UInt8]] = []
    private var messageBytes = 0
    /// For each separation, the number of `messages` before it.
    private var separations: [Int] = []
    /// Requests that wait for messages. The older one is answered when a newer one arrives.
    private var polls: [ExchangeReference] = []
    private var nextResponse = 1
    /// Responses to polls that had ended before they were answered. Clients sort responses by their numbers.
    private var lost: [Response] = []
    private var isClosed = false
    private var isFinishing = false
    /// The number of the last response, once it has been created.
    private var lastResponse: Int?
    private let maxBytes: Int
    /// The client's incomplete messages; nil once it has stopped sending by polling.
    var segments: LongPollSegments?
    /// Called when the client can't be served any more.
    var onEnd: (() -> Void)?
    /// Called when no messages are waiting any more.
    var onDrain: (() -> Void)?
    /// Called on any thread when a poll ended before it was answered. The handler must arrange a call of `keep`.
    var onLoss: (@Sendable (Response) -> Void)?
    /// Called when the client has received the last response, or has stopped polling.
    var onFinish: (() -> Void)?

    /// A response to a poll.
    struct Response: Sendable {
        fileprivate let body: [UInt8]
    }

    init(password: String, maxBytes: Int) {
        self.password = password
        self.maxBytes = maxBytes
    }

    static var isWebSocket: Bool { false }

    var queuedBytes: Int { messageBytes }

    func send(_ message: [UInt8]) -> Bool {
        guard !isClosed else { return true }
        messages.append(message)
        messageBytes += message.count
        answerWaiting()
        // A client that fetches no messages has disconnected.
        if messageBytes > maxBytes { onEnd?() }
        return true
    }

    /// Keeps a response that could not be sent for the next poll.
    func keep(_ response: Response) {
        guard !isClosed else { return }
        lost.append(response)
        messageBytes += response.body.count
        answerWaiting()
        if messageBytes > maxBytes { onEnd?() }
    }

    /// Sends unframed messages, joined by commas: the answer to a poll is text.
    func send(frames: SharedBytes) { _ = send(frames.bytes) }

    static func frames(for messages: [[UInt8]]) -> SharedBytes? {
        SharedBytes(Array(messages.joined(separator: [UInt8(ascii: ",")])))
    }

    /// Handles a request for messages.
    func poll(_ exchange: ExchangeReference) {
        if isClosed { return Self.answer(exchange, Self.script("pLPCommand('close')")) }
        if let lastResponse, lost.isEmpty {
            // The client polls again after it has received the last response.
            Self.answer(exchange, Self.script("pLPCommand('close',\(lastResponse))"))
            onFinish?()
            return
        }
        polls.append(exchange)
        if polls.count > 1 { respond(polls.removeFirst()) }
        answerWaiting()
    }

    /// Sends the last message by polling. The next poll gets a close command: browsers have only a few connections for
    /// a host, and a waiting poll occupies one.
    func finish(with message: [UInt8]) {
        isFinishing = true
        _ = send(message)
    }

    /// Puts later messages into another response. The SDK reads all messages of a response at once, but applies the
    /// answer to a `get` only afterwards, so that it would overwrite newer data.
    func separate() {
        if !messages.isEmpty, separations.last != messages.count { separations.append(messages.count) }
    }

    private func answerWaiting() {
        while !polls.isEmpty, !lost.isEmpty { respond(polls.removeFirst()) }
        guard !messages.isEmpty, !polls.isEmpty else { return }
        respond(polls.removeFirst())
        if messages.isEmpty { onDrain?() }
    }

    private func respond(_ exchange: ExchangeReference) {
        if !lost.isEmpty {
            let response = lost.removeFirst()
            messageBytes -= response.body.count
            return deliver(response, to: exchange)
        }
        let count = separations.first ?? messages.count
        let parts = messages.prefix(count)
        messages.removeFirst(count)
        messageBytes -= parts.reduce(0) { $0 + $1.count }
        separations = separations.dropFirst().map { $0 - count }
        let body =
            Array("pRTLPCB(\(nextResponse),[".utf8) + parts.joined(separator: [UInt8(ascii: ",")]) + Array("]);".utf8)
        if isFinishing, messages.isEmpty { lastResponse = nextResponse }
        nextResponse += 1
        deliver(Response(body: ScriptText.escaped(body)), to: exchange)
    }

    private func deliver(_ response: Response, to exchange: ExchangeReference) {
        Self.answer(exchange, response.body) { [onLoss] in onLoss?(response) }
    }

    /// Answers a waiting poll, which makes the client poll again. The client's own timer for this almost stops in a
    /// page that is in the background.
    func ping() {
        if !isClosed, !polls.isEmpty { respond(polls.removeFirst()) }
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        for exchange in polls { Self.answer(exchange, Self.script("pLPCommand('close')")) }
        polls.removeAll()
        onEnd?()
    }

    func abandon() { close() }

    // MARK: Scripts

    /// Returns the first response: it defines the functions that later responses call, and contains the greeting.
    static func opening(callback: String, session: String, password: String, hello: [UInt8]) -> [UInt8] {
        let start = """
            function pLPCommand(c,a1,a2,a3,a4){parent.window["pLPCommand\(callback)"]&&parent.window["pLPCommand\(callback)"](c,a1,a2,a3,a4);}
            function pRTLPCB(n,d){parent.window["pRTLPCB\(callback)"]&&parent.window["pRTLPCB\(callback)"](n,d);}
            pLPCommand('start','\(session)','\(password)');
            pRTLPCB(0,[
            """
        return ScriptText.escaped(Array(start.utf8) + hello + Array("]);".utf8))
    }

    private static func script(_ text: String) -> [UInt8] { Array(text.utf8) }

    static func answer(
        _ exchange: ExchangeReference, _ body: [UInt8], otherwise: @escaping @Sendable () -> Void = {}
    ) {
        exchange.perform(otherwise: otherwise) { exchange in
            exchange.respond(
                status: 200,
                headers: [
                    "Content-Type": "application/javascript; charset=utf-8", "Cache-Control": "no-cache",
                    "X-Content-Type-Options": "nosniff",
                ], body: body)
        }
    }
}
