import HTTPServer
import Tree
import Wire

/// An answer with data, ready to send. Created on any thread.
struct Reply: Sendable {
    let headers: HTTPHeaders
    let body: [UInt8]

    /// Headers of every answer with data. The exchange's common headers determine which page may read an answer.
    private static let jsonHeaders: HTTPHeaders = [
        "Content-Type": "application/json; charset=utf-8",
        "Access-Control-Expose-Headers": "ETag, X-Pathmirror-Seq",
        "Cache-Control": "no-cache",
    ]

    /// The parts of a request that determine the form of its answer.
    struct Options: Sendable {
        let callback: String?
        let download: String?
        let gzipFromBytes: Int?

        init(_ call: Call, _ settings: GatewaySettings) {
            callback = call.parameters.callback
            download = call.parameters.download
            gzipFromBytes = call.acceptsGzip ? settings.gzipFromBytes : nil
        }
    }

    init(_ options: Options, seq: Int64, etag: String?, body: [UInt8]) {
        var written = WrittenValue(text: body)
        self.init(options, seq: seq, etag: etag, text: body, &written)
    }

    /// - Parameter written: the cached encodings of the same value. For a script they are replaced by the script's
    ///   encodings.
    init(_ options: Options, seq: Int64, etag: String?, text: [UInt8], _ written: inout WrittenValue) {
        var headers = Self.jsonHeaders
        var body = text
        headers.add("X-Pathmirror-Seq", UInt64(seq))
        if let etag { headers.add("ETag", etag) }
        if let callback = options.callback {
            headers = [
                "Content-Type": "application/javascript; charset=utf-8", "Cache-Control": "no-cache",
                "X-Content-Type-Options": "nosniff", "X-Pathmirror-Seq": "\(seq)",
            ]
            body = Array("/**/\(callback)(".utf8) + ScriptText.escaped(body) + Array(");".utf8)
            written = WrittenValue(text: body)
        }
        if let download = options.download {
            headers.add("Content-Disposition", "attachment; filename=\"\(Self.fileName(download))\"")
        }
        if let least = options.gzipFromBytes {
            headers.add("Vary", "Accept-Encoding")
            if body.count >= least, let compressed = written.compressedText() {
                headers.add("Content-Encoding", "gzip")
                body = compressed
            }
        }
        self.headers = headers
        self.body = body
    }

    private static func fileName(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.filter { $0.value >= 0x20 && $0 != "\"" && $0 != "\\" && $0 != "/" }))
    }
}

/// A complete answer, created on any thread.
struct DataAnswer: Sendable {
    let status: Int
    let headers: HTTPHeaders
    let body: [UInt8]

    func send(to exchange: HTTPExchange) { exchange.respond(status: status, headers: headers, body: body) }

    private static let silentHeaders: HTTPHeaders = ["Cache-Control": "no-cache"]

    /// Returns an answer without data.
    static func silent(_ status: Int = 204, seq: Int64, etag: String?) -> DataAnswer {
        var headers = Self.silentHeaders
        headers.add("X-Pathmirror-Seq", UInt64(seq))
        if let etag { headers.add("ETag", etag) }
        return DataAnswer(status: status, headers: headers, body: [])
    }
}
