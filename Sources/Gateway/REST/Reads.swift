import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// Answers a GET from the newest snapshot.
    func read(_ call: Call, _ namespace: LiveNamespace) {
        gateway.metrics.reads.add()
        let snapshot = namespace.snapshot
        if let refusal = readRefusal(call, snapshot) { return respond(refusal, to: call.exchange) }
        if call.request.header("if-match") != nil {
            return respond(RESTError(400, "if-match is not supported on GET"), to: call.exchange)
        }
        let node = snapshot.root[call.path]
        let selection = Selection(call.parameters.query, at: call.path, namespace, snapshot)
        let job = ReadJob(call, snapshot.seq, node, selection, gateway.settings)
        guard node.rowCount > gateway.settings.heavyRows else { return job.run().send(to: call.exchange) }
        let reference = call.exchange.reference
        let isQueued = gateway.workers.submit {
            let answer = job.run()
            reference.perform { answer.send(to: $0) }
        }
        if !isQueued { respond(.overloaded, to: call.exchange) }
    }

    /// Why the rules, or their indexes, don't let this be read.
    func readRefusal(_ call: Call, _ snapshot: Snapshot) -> RESTError? {
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

/// A query and where it is asked: by an ordered index where the rules declare one.
struct Selection: Sendable {
    private let query: Query?
    private let path: Path
    private let indexes: IndexCache
    private let isDeclared: Bool
    private let isFollowed: Bool

    /// - Parameter isFollowed: whether it is asked for again after every change.
    init(
        _ query: Query?, at path: Path, _ namespace: LiveNamespace, _ snapshot: Snapshot, isFollowed: Bool = false
    ) {
        self.isFollowed = isFollowed
        self.query = query
        self.path = path
        indexes = namespace.indexes
        isDeclared = query.map { snapshot.rules.set.isIndexed($0.index, at: path) } ?? false
    }

    /// What is selected of the node at the path.
    func select(from node: Node) -> Node {
        guard let query else { return node }
        return indexes.select(query, from: node, at: path, isDeclared: isDeclared, isFollowed: isFollowed)
    }
}

/// Everything that a GET's answer is made of; made on the loop, run there or on a worker.
struct ReadJob: Sendable {
    struct Answer: Sendable {
        let status: Int
        let headers: HTTPHeaders
        let body: [UInt8]

        func send(to exchange: HTTPExchange) { exchange.respond(status: status, headers: headers, body: body) }

        /// An answer without data.
        static func silent(_ status: Int = 204, seq: Int64, etag: String?) -> Answer {
            var headers: HTTPHeaders = ["Cache-Control": "no-cache"]
            headers.add("X-Pathmirror-Seq", UInt64(seq))
            if let etag { headers.add("ETag", etag) }
            return Answer(status: status, headers: headers, body: [])
        }
    }

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

    func run() -> Answer {
        var etag: String?
        if wantsETag {
            let tag = ETag.of(node)
            etag = tag
            if let ifNoneMatch, ETag.hash(ifNoneMatch) == ETag.hash(tag) {
                return Answer.silent(304, seq: seq, etag: tag)
            }
        }
        if parameters.print == .silent {
            return Answer.silent(seq: seq, etag: etag)
        }
        let reply = Reply(options, seq: seq, etag: etag, body: encode())
        return Answer(status: 200, headers: reply.headers, body: reply.body)
    }

    private func encode() -> [UInt8] {
        let selected = selection.select(from: node)
        guard parameters.isShallow else {
            return JSONWriter.encode(selected, form: parameters.form, pretty: parameters.print == .pretty)
        }
        var writer = JSONWriter(form: .plain, pretty: parameters.print == .pretty)
        writer.writeShallow(selected)
        return writer.bytes
    }
}
