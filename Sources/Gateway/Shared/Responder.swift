import Engine
import HTTPServer
import Runtime
import Tree
import Wire

/// Answers requests that fail, and counts them. Any loop.
struct Responder: Sendable {
    private let metrics: GatewayMetrics

    init(_ metrics: GatewayMetrics) { self.metrics = metrics }

    /// Headers of answers without data.
    static let plainHeaders: HTTPHeaders = [
        "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-cache",
    ]

    /// Methods for namespaces that follow an upstream.
    private static let readingMethods = "GET, HEAD, OPTIONS"

    /// - Parameters:
    ///   - retryAfter: the seconds after which the client may retry.
    ///   - allowed: the methods for the resource, for status 405.
    func respond(_ error: RESTError, to exchange: HTTPExchange, retryAfter: Int? = nil, allowed: String? = nil) {
        if error.status >= 500 { metrics.serverErrors.add() } else { metrics.clientErrors.add() }
        if error == .appendJSON {
            exchange.respond(
                status: error.status, headers: ["Content-Type": "text/plain; charset=utf-8"],
                body: Array("\(error.message)\n".utf8))
            return
        }
        var headers = Self.plainHeaders
        if let retryAfter { headers.add("Retry-After", "\(retryAfter)") }
        if let allowed { headers.add("Allow", allowed) }
        exchange.respond(status: error.status, headers: headers, body: ErrorBody.encode(error.message))
    }

    func respond(_ error: EngineError, to exchange: HTTPExchange) {
        let answer = Self.answer(to: error)
        respond(
            answer.error, to: exchange, retryAfter: answer.retryAfter,
            allowed: error == .readOnly ? Self.readingMethods : nil)
    }

    /// Returns the answer to an error of the engine, and the seconds after which the client may retry.
    static func answer(to error: EngineError) -> (error: RESTError, retryAfter: Int?) {
        switch error {
        case .unknownNamespace(let name): (RESTError(404, "There is no namespace \"\(name)\" here"), nil)
        case .unavailable, .moving, .overloaded, .stopping, .outcomeUnknown, .superseded:
            (RESTError(503, publicText(error)), 1)
        case .readOnly: (RESTError(405, error.description), nil)
        case .corrupt: (RESTError(500, "Internal server error"), nil)
        }
    }

    /// Returns the error text for clients. Details are for operators only.
    private static func publicText(_ error: EngineError) -> String {
        switch error {
        case .unavailable, .superseded: "The database is unavailable. Try again later."
        default: error.description
        }
    }

    /// Answers a CORS preflight request.
    func respondToPreflight(_ request: HTTPRequest, _ exchange: HTTPExchange) {
        var headers: HTTPHeaders = [
            "Allow": "GET, PUT, POST, PATCH, DELETE, HEAD, OPTIONS",
            "Access-Control-Allow-Methods": "GET, PUT, POST, PATCH, DELETE, HEAD, OPTIONS",
            "Access-Control-Max-Age": "3600",
        ]
        if let wanted = request.headerText("access-control-request-headers") {
            headers.add("Access-Control-Allow-Headers", wanted)
        }
        exchange.respond(status: 200, headers: headers)
    }
}

/// Encodes `{"error":"…"}` with the whitespace that Firebase uses.
enum ErrorBody {
    static func encode(_ message: String) -> [UInt8] {
        var writer = JSONWriter(form: .plain, pretty: true)
        writer.beginObject()
        writer.writeKey("error", isFirst: true)
        writer.writeString(message)
        writer.endObject()
        return writer.bytes + [0x0A]
    }
}

extension RESTError {
    static let tooManyRequests = RESTError(429, "Too many requests")
}

/// Texts that clients of both protocols receive.
enum AnswerText {
    /// Answers a write that exceeds the bytes or rows of one request.
    static let tooBig = "Data to write exceeds the maximum size that can be modified with a single request."
}
