import HTTPServer
import Wire

/// A realtime client that polls (reference: rtdb-protocol 1.8): messages wait until a request comes to fetch them.
/// Belongs to the loop of its session; requests come in on any.
final class LongPollTransport: RealtimeTransport {
    /// Proves that a request is the session's own.
    let password: String
    private var messages: [[UInt8]] = []
    private var messageBytes = 0
    /// How many of `messages` are before each separation.
    private var separations: [Int] = []
    /// Requests that wait for messages; the older is answered when a newer comes.
    private var polls: [ExchangeReference] = []
    private var nextResponse = 1
    /// What polls that had ended by then were to be answered. Clients put responses in order by their numbers.
    private var lost: [Response] = []
    private var isClosed = false
    private var isFinishing = false
    /// The number of the response behind which there is nothing more, once it has been made.
    private var lastResponse: Int?
    private let maxBytes: Int
    /// What the client has sent in part; nil once it sends nothing more by polling.
    var segments: LongPollSegments?
    /// Called when the client can't be served any more.
    var onEnd: (() -> Void)?
    /// Called when nothing waits any more.
    var onDrain: (() -> Void)?
    /// Called, on any thread, when a poll ended before it was answered; is to see to it that `keep` is called.
    var onLoss: (@Sendable (Response) -> Void)?
    /// Called when the client has taken the last response, or polls no more.
    var onFinish: (() -> Void)?

    /// What a poll is answered.
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
        // A client that fetches nothing is gone.
        if messageBytes > maxBytes { onEnd?() }
        return true
    }

    /// A response could not be sent: the next poll is for it.
    func keep(_ response: Response) {
        guard !isClosed else { return }
        lost.append(response)
        messageBytes += response.body.count
        answerWaiting()
        if messageBytes > maxBytes { onEnd?() }
    }

    /// Messages as they are, one behind another; polls are answered with text, not frames.
    func send(frames: SharedBytes) { _ = send(frames.bytes) }

    static func frames(for messages: [[UInt8]]) -> SharedBytes? {
        SharedBytes(Array(messages.joined(separator: [UInt8(ascii: ",")])))
    }

    /// A request to fetch messages.
    func poll(_ exchange: ExchangeReference) {
        if isClosed { return Self.answer(exchange, Self.script("pLPCommand('close')")) }
        if let lastResponse, lost.isEmpty {
            // The client polls again after it has taken that one.
            Self.answer(exchange, Self.script("pLPCommand('close',\(lastResponse))"))
            onFinish?()
            return
        }
        polls.append(exchange)
        if polls.count > 1 { respond(polls.removeFirst()) }
        answerWaiting()
    }

    /// Sends a message behind which nothing comes by polling. The next poll is told so: browsers have only a few
    /// connections for a host, and a poll that is held takes one.
    func finish(with message: [UInt8]) {
        isFinishing = true
        _ = send(message)
    }

    /// The SDK takes all messages of a response at once, but applies what `get` was answered only afterwards: it would
    /// put that over newer data.
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

    /// A client polls again when it is answered. The clock by which it would do so by itself stands nearly still in a page
    /// that nobody looks at.
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

    /// The first response: defines what the later ones call, and greets.
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
