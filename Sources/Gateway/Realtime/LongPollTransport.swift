import HTTPServer
import Tree

/// A realtime client that polls (reference: rtdb-protocol 1.8): messages wait until a request comes to fetch them.
/// Belongs to the loop of its session; requests come in on any.
final class LongPollTransport: RealtimeTransport {
    /// Proves that a request is the session's own.
    let password: String
    private var messages: [[UInt8]] = []
    private var messageBytes = 0
    /// Requests that wait for messages; the older is answered when a newer comes.
    private var polls: [ExchangeReference] = []
    private var nextResponse = 1
    private var isClosed = false
    private let maxBytes: Int
    /// Called when the client can't be served any more.
    var onEnd: (() -> Void)?
    /// Called when nothing waits any more.
    var onDrain: (() -> Void)?

    init(password: String, maxBytes: Int) {
        self.password = password
        self.maxBytes = maxBytes
    }

    var queuedBytes: Int { messageBytes }

    func send(_ message: [UInt8]) -> Bool {
        guard !isClosed else { return true }
        messages.append(message)
        messageBytes += message.count
        // A client that fetches nothing is gone.
        if messageBytes > maxBytes {
            onEnd?()
            return true
        }
        answerWaiting()
        return true
    }

    /// Messages as they are, one behind another; polls are answered with text, not frames.
    func send(frames: SharedBytes) { _ = send(frames.bytes) }

    static func frames(for messages: [[UInt8]]) -> SharedBytes? {
        SharedBytes(Array(messages.joined(separator: [UInt8(ascii: ",")])))
    }

    /// A request to fetch messages.
    func poll(_ exchange: ExchangeReference) {
        if isClosed { return Self.answer(exchange, Self.script("pLPCommand('close')")) }
        polls.append(exchange)
        if polls.count > 1 { respond(polls.removeFirst()) }
        answerWaiting()
    }

    private func answerWaiting() {
        guard !messages.isEmpty, !polls.isEmpty else { return }
        respond(polls.removeFirst())
        onDrain?()
    }

    private func respond(_ exchange: ExchangeReference) {
        let body =
            Array("pRTLPCB(\(nextResponse),[".utf8) + messages.joined(separator: [UInt8(ascii: ",")])
            + Array("]);".utf8)
        nextResponse += 1
        messages.removeAll()
        messageBytes = 0
        Self.answer(exchange, Self.scriptSafe(body))
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
        return scriptSafe(Array(start.utf8) + hello + Array("]);".utf8))
    }

    private static func script(_ text: String) -> [UInt8] { Array(text.utf8) }

    /// U+2028 and U+2029 end lines in old scripts, and `</` ends the script element.
    private static func scriptSafe(_ text: [UInt8]) -> [UInt8] {
        var safe: [UInt8] = []
        safe.reserveCapacity(text.count)
        var index = 0
        while index < text.count {
            if text[index] == 0xE2, index + 2 < text.count, text[index + 1] == 0x80, text[index + 2] & 0xFE == 0xA8 {
                safe.append(contentsOf: text[index + 2] == 0xA8 ? "\\u2028".utf8 : "\\u2029".utf8)
                index += 3
                continue
            }
            if text[index] == UInt8(ascii: "<"), index + 1 < text.count, text[index + 1] == UInt8(ascii: "/") {
                safe.append(contentsOf: "<\\/".utf8)
                index += 2
                continue
            }
            safe.append(text[index])
            index += 1
        }
        return safe
    }

    static func answer(_ exchange: ExchangeReference, _ body: [UInt8]) {
        exchange.perform { exchange in
            exchange.respond(
                status: 200,
                headers: [
                    "Content-Type": "application/javascript; charset=utf-8", "Cache-Control": "no-cache",
                    "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "*",
                ], body: body)
        }
    }
}
