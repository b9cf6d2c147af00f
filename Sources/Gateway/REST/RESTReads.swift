import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// Answers GET requests. One for each loop.
final class RESTReads {
    private let services: LoopServices
    private let written: WrittenValues
    private let link: LoopLink<RESTReads>

    init(_ services: LoopServices) {
        self.services = services
        let settings = services.settings
        written = WrittenValues(bytes: settings.answerCacheBytes, services.workers)
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    /// Answers from the newest snapshot: here, or on a worker where there is much to be written.
    func read(_ call: Call, _ namespace: LiveNamespace) {
        services.metrics.reads.add()
        let snapshot = namespace.snapshot
        if let refusal = ReadPermission.refusal(of: call, snapshot) {
            return services.responder.respond(refusal, to: call.exchange)
        }
        if call.request.header("if-match") != nil {
            return services.responder.respond(RESTError(400, "if-match is not supported on GET"), to: call.exchange)
        }
        let node = snapshot.root[call.path]
        let selection = Selection(call.parameters.query, at: call.path, namespace, snapshot)
        let job = ReadJob(call, snapshot.seq, node, selection, services.settings)
        if job.isOfTheWholeValue, written.isWorthKeeping(node) {
            return answer(call, job, node, WrittenValues.Place(call, namespace))
        }
        guard node.rowCount > services.settings.heavyRows else { return job.run().send(to: call.exchange) }
        let reference = call.exchange.reference
        submit(call) {
            let answer = job.run()
            reference.perform { answer.send(to: $0) }
        }
    }

    /// The same where what is written out is kept for the next GET.
    private func answer(_ call: Call, _ job: ReadJob, _ node: Node, _ place: WrittenValues.Place) {
        var value = written.find(place, node) ?? WrittenValue()
        if job.isAnswered(by: value) {
            services.metrics.readsKept.add()
            return job.run(with: &value).send(to: call.exchange)
        }
        guard node.rowCount > services.settings.heavyRows else {
            let answer = job.run(with: &value)
            if let kept = WrittenValues.Kept(node, value) { written.keep(kept, at: place) }
            return answer.send(to: call.exchange)
        }
        let reference = call.exchange.reference
        submit(call) { [link, value] in
            var value = value
            let answer = job.run(with: &value)
            reference.perform { answer.send(to: $0) }
            guard let kept = WrittenValues.Kept(node, value) else { return }
            link.post { reads in reads.written.keep(kept, at: place) }
        }
    }

    private func submit(_ call: Call, _ work: @escaping @Sendable () -> Void) {
        if !services.workers.submit(work) { services.responder.respond(.overloaded, to: call.exchange) }
    }
}

/// Whether a GET may be answered.
enum ReadPermission {
    /// Why the rules, or their indexes, don't let this be read; nil where they do.
    static func refusal(of call: Call, _ snapshot: Snapshot) -> RESTError? {
        let query = call.parameters.query
        let rules = snapshot.rules
        let decision = rules.set.mayRead(
            call.path, query: .overREST(query), root: snapshot.root, auth: call.auth, now: Clock.unixMilliseconds)
        guard decision.isAllowed else { return .permissionDenied }
        if rules.enforcesIndexes, let index = query?.index, !rules.set.isIndexed(index, at: call.path) {
            return .missingIndex(index, at: call.path)
        }
        return nil
    }
}

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
