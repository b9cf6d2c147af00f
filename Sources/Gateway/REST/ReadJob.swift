import HTTPServer
import Tree
import Wire

/// Everything that a GET's answer is made of; made on the loop, run there or on a worker.
struct ReadJob: Sendable {
    private let seq: Int64
    private let node: Node
    private let selection: Selection
    private let parameters: RESTParameters
    private let options: Reply.Options
    private let wantsETag: Bool
    private let ifNoneMatch: String?

    init(_ call: Call, _ seq: Int64, _ node: Node, _ selection: Selection, _ settings: GatewaySettings) {
        self.selection = selection
        self.seq = seq
        self.node = node
        parameters = call.parameters
        options = Reply.Options(call, settings)
        // A tag is of all the data at the path; a query's answer is something else (reference: rtdb-protocol 7.4).
        wantsETag = call.wantsETag && call.parameters.query == nil
        ifNoneMatch = call.request.headerText("if-none-match")
    }

    /// Whether the answer is the value and nothing else: no query's result, no script, and not its keys alone.
    var isOfTheWholeValue: Bool { parameters.query == nil && parameters.callback == nil && !parameters.isShallow }

    /// Whether nothing has to be made any more for the answer.
    func isAnswered(by written: WrittenValue) -> Bool {
        if let tag = written.tag, isKnown(tag) { return true }
        return written.suffices(packedFrom: options.gzipFromBytes, tag: wantsETag)
    }

    /// Makes the answer, and keeps nothing.
    func run() -> DataAnswer {
        var written = WrittenValue()
        return run(with: &written)
    }

    /// Makes the answer, and of the value what the answer needs and is not there yet.
    func run(with written: inout WrittenValue) -> DataAnswer {
        var etag: String?
        if wantsETag {
            let tag = written.tag { ETag.of(node) }
            etag = tag
            if isKnown(tag) { return DataAnswer.silent(304, seq: seq, etag: tag) }
        }
        if parameters.print == .silent {
            return DataAnswer.silent(seq: seq, etag: etag)
        }
        let text = written.text(encode)
        let reply = Reply(options, seq: seq, etag: etag, text: text, &written)
        return DataAnswer(status: 200, headers: reply.headers, body: reply.body)
    }

    /// Whether the client has the value of this tag.
    private func isKnown(_ tag: String) -> Bool {
        wantsETag && ifNoneMatch.map { ETag.hash($0) == ETag.hash(tag) } ?? false
    }

    private func encode() -> [UInt8] {
        let selected = selection.select(from: node)
        let isPretty = parameters.print == .pretty
        // A query's result is an object, empty where nothing matches. Where there is no data to query it is null.
        let isResult = parameters.query != nil && !node.isNull
        guard parameters.isShallow, !(isResult && selected.isNull) else {
            return isResult
                ? JSONWriter.encodeObject(selected, form: parameters.form, pretty: isPretty)
                : JSONWriter.encode(selected, form: parameters.form, pretty: isPretty)
        }
        var writer = JSONWriter(form: .plain, pretty: isPretty)
        writer.writeShallow(selected)
        return writer.bytes
    }
}
