import HTTPServer

/// A whole answer, made on any thread.
struct DataAnswer: Sendable {
    let status: Int
    let headers: HTTPHeaders
    let body: [UInt8]

    func send(to exchange: HTTPExchange) { exchange.respond(status: status, headers: headers, body: body) }

    private static let silentHeaders: HTTPHeaders = ["Cache-Control": "no-cache"]

    /// An answer without data.
    static func silent(_ status: Int = 204, seq: Int64, etag: String?) -> DataAnswer {
        var headers = Self.silentHeaders
        headers.add("X-Pathmirror-Seq", UInt64(seq))
        if let etag { headers.add("ETag", etag) }
        return DataAnswer(status: status, headers: headers, body: [])
    }
}
