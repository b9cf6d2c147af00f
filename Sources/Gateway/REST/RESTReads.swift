import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// Answers GET requests. One for each loop.
final class RESTReads {
    private let services: LoopServices
    private let written: EncodedValueCache
    private let link: LoopLink<RESTReads>

    init(_ services: LoopServices) {
        self.services = services
        let settings = services.settings
        written = EncodedValueCache(bytes: settings.answerCacheBytes, services.workers)
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    /// Answers from the newest snapshot. A worker encodes large values.
    func read(_ call: Call, _ namespace: LiveNamespace) {
        services.metrics.reads.add()
        let snapshot = namespace.snapshot
        if let refusal = ReadPermission.refusal(of: call, snapshot) {
            return services.refuse(call.exchange, in: call.namespaceName, refusal)
        }
        if call.request.header("if-match") != nil {
            return services.responder.respond(RESTError(400, "if-match is not supported on GET"), to: call.exchange)
        }
        let node = snapshot.root[call.path]
        let selection = Selection(call.parameters.query, at: call.path, namespace, snapshot)
        let job = ReadJob(call, snapshot.seq, node, selection, services.settings)
        if job.isOfTheWholeValue, written.isWorthKeeping(node) {
            return answer(call, job, node, EncodedValueCache.CacheKey(call, namespace))
        }
        guard node.rowCount > services.settings.heavyRows else { return job.run().send(to: call.exchange) }
        let reference = call.exchange.reference
        submit(call) {
            let answer = job.run()
            reference.perform { answer.send(to: $0) }
        }
    }

    /// Answers a read whose encoded value is cached for the next GET.
    private func answer(_ call: Call, _ job: ReadJob, _ node: Node, _ key: EncodedValueCache.CacheKey) {
        var value = written.find(key, node) ?? WrittenValue()
        if job.isAnswered(by: value) {
            services.metrics.readsKept.add()
            return job.run(with: &value).send(to: call.exchange)
        }
        guard node.rowCount > services.settings.heavyRows else {
            let answer = job.run(with: &value)
            if let kept = EncodedValueCache.Kept(node, value) { written.keep(kept, at: key) }
            return answer.send(to: call.exchange)
        }
        let reference = call.exchange.reference
        submit(call) { [link, value] in
            var value = value
            let answer = job.run(with: &value)
            reference.perform { answer.send(to: $0) }
            guard let kept = EncodedValueCache.Kept(node, value) else { return }
            link.post { reads in reads.written.keep(kept, at: key) }
        }
    }

    private func submit(_ call: Call, _ work: @escaping @Sendable () -> Void) {
        if !services.workers.submit(work) { services.responder.respond(.overloaded, to: call.exchange) }
    }
}

/// Decides whether a GET may be answered.
enum ReadPermission {
    /// Returns the error if the rules or their indexes do not permit the read; nil if they do.
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

/// The inputs of a GET's answer. Created on the loop, run there or on a worker.
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
        // An ETag covers all the data at the path, and does not apply to a query's answer (reference: rtdb-protocol
        // 7.4).
        wantsETag = call.wantsETag && call.parameters.query == nil
        ifNoneMatch = call.request.headerText("if-none-match")
    }

    /// Whether the answer is the plain value: no query's result, no script, and no shallow keys.
    var isOfTheWholeValue: Bool { parameters.query == nil && parameters.callback == nil && !parameters.isShallow }

    /// Returns whether the cached encodings suffice for the answer.
    func isAnswered(by written: WrittenValue) -> Bool {
        if let tag = written.tag, isKnown(tag) { return true }
        return written.suffices(compressedFrom: options.gzipFromBytes, tag: wantsETag)
    }

    /// Creates the answer without caching.
    func run() -> DataAnswer {
        var written = WrittenValue()
        return run(with: &written)
    }

    /// Creates the answer, and adds the encodings that it needs to the cached ones.
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

    /// Returns whether the client already has the value with this tag.
    private func isKnown(_ tag: String) -> Bool {
        wantsETag && ifNoneMatch.map { ETag.hash($0) == ETag.hash(tag) } ?? false
    }

    private func encode() -> [UInt8] {
        let selected = selection.select(from: node)
        let isPretty = parameters.print == .pretty
        // A query's result is an object, which is empty if no child matches. It is null if there is no data at the
        // path.
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
