import Crypto
import Engine
import HTTPServer
import Wire

/// Complete answers of the protocol of durable streams, to one request.
struct DurableAnswers {
    let responder: Responder
    /// What the answer is of, besides its places.
    let view: LogView
    /// The place that was asked for.
    let start: LogPlace
    /// Whether the answer is of the log's end whatever that is then, and so no other request's.
    let isOfEnd: Bool
    /// The cursor, where the answer has one.
    let cursor: Int64?
    /// What the client has kept, as it says.
    let ifNoneMatch: String?

    /// The lines of a slice, or that there are none.
    func respond(_ slice: LogSlice, _ exchange: HTTPExchange) {
        var headers = headers(behind: slice)
        let tag = entityTag(slice)
        if isOfEnd {
            headers.add("Cache-Control", "no-store")
        } else {
            headers.add("ETag", tag)
            // What isn't the end stays as it is; at the end more may come at any moment.
            headers.add(
                "Cache-Control",
                slice.isAtEnd ? "private, no-cache" : "private, max-age=60, stale-while-revalidate=300")
        }
        headers.add("Vary", "Authorization")
        if !isOfEnd, let ifNoneMatch, Self.names(ifNoneMatch, tag) {
            exchange.respond(status: 304, headers: headers)
            return
        }
        headers.add("Content-Type", "application/json; charset=utf-8")
        exchange.respond(status: 200, headers: headers, body: LogFrames.array(slice))
    }

    /// Answers that a wait has ended without a line: 204 at the log's end, otherwise an empty array, after which the client asks again.
    func respond(nothingBehind slice: LogSlice, _ exchange: HTTPExchange) {
        guard slice.isAtEnd else { return respond(slice, exchange) }
        exchange.respond(status: 204, headers: headers(behind: slice).adding("Cache-Control", "no-store"))
    }

    func refuse(_ error: LogReadError, _ exchange: HTTPExchange) { LogRefusal(error).respond(exchange, responder) }

    func refuseIdentity(_ exchange: HTTPExchange) {
        responder.respond(AuthFailure.expired.restError, to: exchange)
    }

    private func headers(behind slice: LogSlice) -> HTTPHeaders {
        var headers: HTTPHeaders = ["Stream-Next-Offset": LogPlaceText.offset(slice.end)]
        if slice.isAtEnd { headers.add("Stream-Up-To-Date", "true") }
        if let cursor { headers.add("Stream-Cursor", "\(cursor)") }
        return headers
    }

    /// Names the stream, which is the view, and the two places.
    private func entityTag(_ slice: LogSlice) -> String {
        let stream = Digest.sha256(Array("\(view.namespace) \(view.hasOrigins) \(view.path)".utf8)).prefix(9)
        let places = "\(LogPlaceText.offset(start)):\(LogPlaceText.offset(slice.end))"
        return "\"\(Base64URL.encode(Array(stream))):\(places)\(slice.isAtEnd ? "" : ":more")\""
    }

    private static func names(_ header: String, _ tag: String) -> Bool {
        header.split(separator: ",").contains { item in
            var text = item.drop { $0 == " " || $0 == "\t" }
            while text.last == " " || text.last == "\t" { text.removeLast() }
            if text.hasPrefix("W/") { text = text.dropFirst(2) }
            return text == "*" || text == tag
        }
    }
}
