import Compression
import Engine
import HTTPServer
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// Reads a write's body, queues the write, and answers when it is committed.
    func write(_ call: Call, _ namespace: LiveNamespace) {
        gateway.metrics.writes.add()
        if call.request.header("if-match") != nil, call.method != .put, call.method != .delete {
            return respond(RESTError(400, "if-match is only supported on PUT and DELETE"), to: call.exchange)
        }
        if call.parameters.query != nil {
            return respond(RESTError(400, "Query parameters are not supported on writes"), to: call.exchange)
        }
        guard admits(gateway.limiter.write(call.request.body.count, to: call.namespaceName), call.exchange) else {
            return
        }
        let job = WriteJob(call, gateway.settings, name: call.method == .post ? gateway.pushIDs.next() : nil)
        let isHeavy = call.request.body.count > gateway.settings.heavyBodyBytes
        guard isHeavy || call.request.header("content-encoding") != nil else {
            return parsed(job.run(), call, namespace)
        }
        suspend(call)
        guard let link else { return }
        let id = call.exchange.id
        let isQueued = gateway.workers.submit {
            let result = job.run()
            link.post { loop in
                if let call = loop.resume(id) { loop.parsed(result, call, namespace) }
            }
        }
        if !isQueued, let call = resume(id) { respond(.overloaded, to: call.exchange) }
    }

    private func parsed(_ result: Result<WriteJob.Parsed, RESTError>, _ call: Call, _ namespace: LiveNamespace) {
        switch result {
        case .failure(let error): respond(error, to: call.exchange)
        case .success(let parsed):
            if let limit = call.parameters.writeTimeout, exceeds(limit, parsed, namespace) {
                return respond(RESTError(400, WriteJob.tooBig), to: call.exchange)
            }
            call.body = parsed.body
            call.hasServerValue = parsed.hasServerValue
            call.pushedName = parsed.name
            suspend(call)
            let write = Write(
                parsed.action, operation: parsed.operation,
                expectedHash: call.request.headerText("if-match").map(ETag.hash),
                hasServerValue: parsed.hasServerValue, byteCount: parsed.body.count + 64, auth: call.auth,
                origin: call.origin)
            guard let link else { return }
            namespace.submit(write, to: link, token: call.exchange.id)
        }
    }

    /// Whether a write would take longer than its `writeSizeLimit` allows, at 100,000 rows a second.
    private func exceeds(_ limit: Int64, _ parsed: WriteJob.Parsed, _ namespace: LiveNamespace) -> Bool {
        let root = namespace.snapshot.root
        let rows: Int =
            switch parsed.action {
            case .set(let path, let node): root[path].rowCount + node.rowCount
            case .update(_, let changes): changes.reduce(0) { $0 + root[$1.path].rowCount + $1.value.rowCount }
            case .rules, .disconnect: 0
            }
        return Int64(rows) / 100 > limit
    }

    /// Answers writes that the committers are done with.
    func written(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (token, outcome) in outcomes {
            guard let call = resume(token) else { continue }
            switch outcome {
            case .committed(let seq, let changes): answer(call, seq, changes)
            case .preconditionFailed(let seq, let current):
                let body = JSONWriter.encode(
                    current, form: call.parameters.form, pretty: call.parameters.print == .pretty)
                respond(to: call, status: 412, seq: seq, etag: ETag.of(current), body: body)
            case .denied: respond(.permissionDenied, to: call.exchange)
            case .refused(let reason): respond(RESTError(400, reason), to: call.exchange)
            case .failed(let error): respond(error, to: call.exchange)
            }
        }
    }

    private func answer(_ call: Call, _ seq: Int64, _ changes: [Change]) {
        let isPretty = call.parameters.print == .pretty
        var etag: String?
        if call.wantsETag || call.request.header("if-match") != nil, call.method != .patch {
            etag = ETag.of(call.method == .delete ? .null : changes.first?.value ?? .null)
        }
        let body: [UInt8]
        switch call.method {
        case .post:
            var writer = JSONWriter(form: .plain, pretty: isPretty)
            writer.beginObject()
            writer.writeKey("name", isFirst: true)
            writer.writeString(call.pushedName ?? "")
            writer.endObject()
            body = writer.bytes
        case .delete: body = Array("null".utf8)
        case .patch where call.hasServerValue || isPretty:
            var writer = JSONWriter(form: .export, pretty: isPretty)
            writer.beginObject()
            for (index, change) in changes.enumerated() {
                writer.writeKey(
                    String(change.path.relative(to: call.path).description.dropFirst()), isFirst: index == 0)
                writer.write(change.value)
            }
            writer.endObject()
            body = writer.bytes
        case .put where call.hasServerValue || isPretty:
            let value = changes.first?.value ?? .null
            body = JSONWriter.encode(value, form: value.hasPriorities ? .export : .plain, pretty: isPretty)
        case .put, .patch, .get:
            // What was sent is what was written: it is repeated as it came.
            body = call.body
        }
        respond(to: call, seq: seq, etag: etag, body: body)
    }
}

extension LoopLink: WriteSink {
    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        post { $0.written(outcomes) }
    }
}
