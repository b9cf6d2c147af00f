import Crypto
import Engine
import HTTPServer
import Runtime
import Tree
import Wire

/// Complete answers of the Durable Streams protocol to one request.
struct DurableAnswers {
    let responder: Responder
    /// The part of the log that the answer covers.
    let view: LogView
    /// The requested position.
    let start: LogLinePosition
    /// Whether the request was for the log's end at its time. Such an answer is not valid for any other request.
    let isOfEnd: Bool
    /// The cursor, if the answer has one.
    let cursor: Int64?
    /// The entity tags that the client has cached.
    let ifNoneMatch: String?

    /// Answers with the lines of a slice, which may be empty.
    func respond(_ slice: LogSlice, _ exchange: HTTPExchange) {
        var headers = headers(after: slice)
        let tag = entityTag(slice)
        if isOfEnd {
            headers.add("Cache-Control", "no-store")
        } else {
            headers.add("ETag", tag)
            // A slice before the log's end never changes. At the end more lines may follow at any moment.
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

    /// Answers that a wait ended without a line: 204 at the log's end, otherwise an empty array, after which the client
    /// asks again.
    func respond(nothingAfter slice: LogSlice, _ exchange: HTTPExchange) {
        guard slice.isAtEnd else { return respond(slice, exchange) }
        exchange.respond(status: 204, headers: headers(after: slice).adding("Cache-Control", "no-store"))
    }

    func refuse(_ error: LogReadError, _ exchange: HTTPExchange) { LogRefusal(error).respond(exchange, responder) }

    func refuseIdentity(_ exchange: HTTPExchange) {
        responder.respond(AuthFailure.expired.restError, to: exchange)
    }

    private func headers(after slice: LogSlice) -> HTTPHeaders {
        var headers: HTTPHeaders = ["Stream-Next-Offset": LogPositionText.offset(slice.end)]
        if slice.isAtEnd { headers.add("Stream-Up-To-Date", "true") }
        if let cursor { headers.add("Stream-Cursor", "\(cursor)") }
        return headers
    }

    /// Returns a tag that identifies the stream, which is the view, and the two positions.
    private func entityTag(_ slice: LogSlice) -> String {
        let stream = Digest.sha256(Array("\(view.namespace) \(view.hasOrigins) \(view.path)".utf8)).prefix(9)
        let range = "\(LogPositionText.offset(start)):\(LogPositionText.offset(slice.end))"
        return "\"\(Base64URL.encode(Array(stream))):\(range)\(slice.isAtEnd ? "" : ":more")\""
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

/// Slices of the log as bytes of an answer of the Durable Streams protocol.
enum LogFrames {
    /// Returns all lines as one array.
    static func array(_ slice: LogSlice) -> [UInt8] {
        var bytes: [UInt8] = [UInt8(ascii: "[")]
        bytes.reserveCapacity(slice.lines.reduce(2) { $0 + $1.count + 1 })
        for (index, line) in slice.lines.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes += line
        }
        bytes.append(UInt8(ascii: "]"))
        return bytes
    }

    /// Returns the lines as one event, if there are any, and an event with the position after them.
    static func events(_ slice: LogSlice, cursor: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        if !slice.lines.isEmpty {
            bytes += "event: data\ndata: ".utf8
            bytes += array(slice)
            bytes += "\n\n".utf8
        }
        var control = JSONWriter(form: .export)
        control.beginObject()
        control.writeKey("streamNextOffset", isFirst: true)
        control.writeString(LogPositionText.offset(slice.end))
        control.writeKey("streamCursor", isFirst: false)
        control.writeString("\(cursor)")
        if slice.isAtEnd {
            control.writeKey("upToDate", isFirst: false)
            control.write(.bool(true))
        }
        control.endObject()
        bytes += "event: control\ndata: ".utf8
        bytes += control.bytes
        bytes += "\n\n".utf8
        return bytes
    }

    /// A keep-alive, which is a comment of the event stream.
    static let comment = Array(": keep-alive\n\n".utf8)
}

/// The cursor of the Durable Streams protocol: a number that increases with time, so that caches do not answer a long
/// poll with the cached answer of the previous one.
enum StreamCursor {
    private static let intervalMilliseconds: Milliseconds = 20_000
    /// 2024-10-09T00:00:00Z
    private static let epochMilliseconds: Milliseconds = 1_728_432_000_000
    /// One hour.
    private static let mostJitter: Int64 = 180

    /// - Parameters:
    ///   - shown: the cursor of the client's last answer. The next cursor is always larger.
    ///   - now: milliseconds since 1970.
    static func next(
        after shown: Int64?, now: Milliseconds = Clock.unixMilliseconds,
        jitter: Int64 = .random(in: 1...mostJitter)
    ) -> Int64 {
        let current = max(0, (now - epochMilliseconds) / intervalMilliseconds)
        // The server never issued a number above this bound, and could not exceed it.
        guard let shown, shown >= current, shown <= .max - mostJitter else { return current }
        return shown + max(1, jitter)
    }
}

/// The answer to a client that can't read the log from the position that it requested.
struct LogRefusal {
    private let error: LogReadError

    init(_ error: LogReadError) { self.error = error }

    func respond(_ exchange: HTTPExchange, _ responder: Responder) {
        switch error {
        case .engine(let error): responder.respond(error, to: exchange)
        case .pruned(let oldest):
            exchange.commonHeaders.add("X-Pathmirror-Oldest-Seq", "\(oldest)")
            responder.respond(
                RESTError(
                    410, "The entries after this offset are no longer in the log, which begins with entry \(oldest)"),
                to: exchange)
        case .otherHistory(let head):
            responder.respond(
                RESTError(
                    410,
                    "The log does not have this offset: it ends with entry \(head), or entries were lost and others written"
                ),
                to: exchange)
        case .damaged(let next):
            exchange.commonHeaders.add("Stream-Next-Offset", LogPositionText.offset(next))
            responder.respond(
                RESTError(
                    410,
                    "Entry \(next.seq) is damaged: some of its parts are missing. Begin with a copy of the tree, or continue after the entry, at Stream-Next-Offset"
                ),
                to: exchange)
        }
    }
}
