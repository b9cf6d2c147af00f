import Compression
import Engine
import HTTPServer
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// Headers of every answer with data. Which page may read an answer is said in the exchange's common headers.
    static let jsonHeaders: HTTPHeaders = [
        "Content-Type": "application/json; charset=utf-8",
        "Access-Control-Expose-Headers": "ETag, X-Pathmirror-Seq",
        "Cache-Control": "no-cache",
    ]

    static let errorHeaders: HTTPHeaders = [
        "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-cache",
    ]

    func respond(_ error: RESTError, to exchange: HTTPExchange, retryAfter: Int? = nil) {
        if error.status >= 500 { gateway.metrics.serverErrors.add() } else { gateway.metrics.clientErrors.add() }
        if error == .appendJSON {
            exchange.respond(
                status: error.status, headers: ["Content-Type": "text/plain; charset=utf-8"],
                body: Array("\(error.message)\n".utf8))
            return
        }
        var headers = Self.errorHeaders
        if let retryAfter { headers.add("Retry-After", "\(retryAfter)") }
        exchange.respond(status: error.status, headers: headers, body: ErrorBody.encode(error.message))
    }

    func respond(_ error: EngineError, to exchange: HTTPExchange) {
        switch error {
        case .unknownNamespace(let name):
            respond(RESTError(404, "There is no database \"\(name)\" here"), to: exchange)
        case .unavailable, .overloaded, .stopping, .outcomeUnknown:
            respond(RESTError(503, Self.publicText(error)), to: exchange, retryAfter: 1)
        case .corrupt: respond(RESTError(500, "Internal server error"), to: exchange)
        }
    }

    /// What clients are told: the details are the operators'.
    private static func publicText(_ error: EngineError) -> String {
        if case .unavailable = error { return "The database is unavailable. Try again later." }
        return error.description
    }

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
