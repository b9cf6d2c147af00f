import HTTPServer
import Tree
import Wire

/// Encodes the answer to a write. Created on the loop, run there or on a worker.
struct WriteAnswer: Sendable {
    enum Result: Sendable {
        /// The changes that the writer may know.
        case committed([Change])
        /// The current value at the path, which differs from the value that the write expected.
        case stale(Node)
    }

    private let result: Result
    private let seq: Int64
    private let method: Call.Method
    private let path: Path
    private let print: RESTParameters.Print
    private let form: JSONForm
    private let wantsETag: Bool
    private let pushedName: String?
    /// Size of the request's body in bytes, uncompressed.
    private let bodyBytes: Int
    private let options: Reply.Options

    init(_ call: Call, _ result: Result, _ seq: Int64, _ settings: GatewaySettings) {
        self.result = result
        self.seq = seq
        method = call.method
        path = call.path
        print = call.parameters.print
        form = call.parameters.form
        wantsETag = call.wantsETag || call.request.header("if-match") != nil
        pushedName = call.pushedName
        bodyBytes = call.bodyBytes
        options = Reply.Options(call, settings)
    }

    /// Returns whether the answer takes long to encode, compress or hash.
    func isHeavy(_ settings: GatewaySettings) -> Bool {
        if bodyBytes > settings.heavyBodyBytes { return true }
        let rows =
            switch result {
            case .committed(let changes): changes.reduce(0) { $0 + max($1.value.rowCount, 1) }
            case .stale(let current): current.rowCount
            }
        return rows > settings.heavyRows
    }

    func run() -> DataAnswer {
        switch result {
        case .committed(let changes):
            if print == .silent { return DataAnswer.silent(seq: seq, etag: etag(changes)) }
            let reply = Reply(options, seq: seq, etag: etag(changes), body: text(changes))
            return DataAnswer(status: 200, headers: reply.headers, body: reply.body)
        case .stale(let current):
            let body = JSONWriter.encode(current, form: form, pretty: print == .pretty)
            let reply = Reply(options, seq: seq, etag: ETag.of(current), body: body)
            return DataAnswer(status: 412, headers: reply.headers, body: reply.body)
        }
    }

    /// Returns the tag of the written value; nil if the writer may not know it.
    private func etag(_ changes: [Change]) -> String? {
        guard wantsETag, method != .patch else { return nil }
        let value = method == .delete ? .null : changes.first?.value ?? .null
        return value.hasIncrement ? nil : ETag.of(value)
    }

    private func text(_ changes: [Change]) -> [UInt8] {
        let isPretty = print == .pretty
        switch method {
        case .post:
            var writer = JSONWriter(form: .plain, pretty: isPretty)
            writer.beginObject()
            writer.writeKey("name", isFirst: true)
            writer.writeString(pushedName ?? "")
            writer.endObject()
            return writer.bytes
        case .delete: return Array("null".utf8)
        // A PATCH of null removes the value at its path.
        case .patch where changes.first?.path != path: return text(ofUpdate: changes)
        case .put, .patch, .get:
            let value = changes.first?.value ?? .null
            return JSONWriter.encode(value, form: Self.form(of: value), pretty: isPretty)
        }
    }

    /// Encodes the stored values of an update, by their paths relative to the update's path.
    private func text(ofUpdate changes: [Change]) -> [UInt8] {
        var writer = JSONWriter(form: .plain, pretty: print == .pretty)
        writer.beginObject()
        for (index, change) in changes.enumerated() {
            writer.writeKey(
                String(change.path.relative(to: path).description.unicodeScalars.dropFirst()), isFirst: index == 0)
            // The form depends only on this value.
            writer.form = Self.form(of: change.value)
            writer.write(change.value)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Returns the plain form, or the form with priorities if the value has any. The writer receives everything that
    /// was stored.
    private static func form(of value: Node) -> JSONForm { value.hasPriorities ? .export : .plain }
}
