import Engine
import HTTPServer
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// Reads a write's body, queues the write, and answers when it is committed.
    ///
    /// Whom the rules refuse wherever and whatever it is gets the refusal first: their bodies are not unpacked, parsed,
    /// counted or queued.
    func write(_ call: Call, _ namespace: LiveNamespace) {
        gateway.metrics.writes.add()
        if call.request.header("if-match") != nil, call.method != .put, call.method != .delete {
            return respond(RESTError(400, "if-match is only supported on PUT and DELETE"), to: call.exchange)
        }
        if call.parameters.query != nil {
            return respond(RESTError(400, "Query parameters are not supported on writes"), to: call.exchange)
        }
        let snapshot = namespace.snapshot
        let permission = WritePermission(snapshot.rules.set, call.auth, now: Clock.unixMilliseconds)
        let job = WriteJob(
            call, gateway.settings, permission, name: call.method == .post ? gateway.pushIDs.next() : nil)
        guard permission.mayBeGiven(at: job.path, job.reach) else {
            return refuse(call)
        }
        // Who is going to be refused for what is stored must not use up what others may write.
        if permission.mayBeGiven(at: job.path, job.reach, root: snapshot.root) {
            guard admits(gateway.limiter.write(call.request.body.count, to: call.namespaceName), call.exchange) else {
                return
            }
        }
        guard job.isHeavy else { return parsed(job.run(), call, namespace) }
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

    private func refuse(_ call: Call) {
        gateway.engine.metrics.deniedWrites.add()
        respond(.permissionDenied, to: call.exchange)
    }

    private func parsed(_ result: Result<WriteJob.Parsed, RESTError>, _ call: Call, _ namespace: LiveNamespace) {
        switch result {
        case .failure(.permissionDenied): refuse(call)
        case .failure(let error): respond(error, to: call.exchange)
        case .success(let parsed):
            call.body = parsed.body
            call.hasServerValue = parsed.hasServerValue
            call.pushedName = parsed.name
            call.memory = parsed.share
            suspend(call)
            let write = Write(
                parsed.action, operation: parsed.operation,
                expectedHash: call.request.headerText("if-match").map(ETag.hash),
                hasServerValue: parsed.hasServerValue, byteCount: parsed.body.count + 64,
                rowLimit: call.parameters.writeTimeout.map(Self.rowLimit), auth: call.auth, origin: call.origin)
            guard let link else { return }
            namespace.submit(write, to: link, token: call.exchange.id)
        }
    }

    /// The rows that a `writeSizeLimit` allows, at 100,000 a second.
    private static func rowLimit(_ milliseconds: Int64) -> Int {
        Int(clamping: milliseconds.multipliedReportingOverflow(by: 100).partialValue + 99)
    }

    /// Answers writes that the committers are done with.
    func written(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (token, outcome) in outcomes {
            guard let call = resume(token) else { continue }
            switch outcome {
            case .committed(let seq, let changes): answer(call, .committed(changes), seq)
            case .preconditionFailed(let seq, let current?): answer(call, .stale(current), seq)
            case .preconditionFailed(_, nil):
                respond(RESTError(412, "The value is not the one that if-match names"), to: call.exchange)
            case .denied: respond(.permissionDenied, to: call.exchange)
            case .tooLarge: respond(RESTError(400, WriteJob.tooBig), to: call.exchange)
            case .refused(let reason): respond(RESTError(400, reason), to: call.exchange)
            case .failed(let error): respond(error, to: call.exchange)
            }
        }
    }

    /// Answers with data: made here, or on a worker where there is much of it.
    private func answer(_ call: Call, _ result: WriteAnswer.Result, _ seq: Int64) {
        let job = WriteAnswer(call, result, seq, gateway.settings)
        guard job.isHeavy(gateway.settings) else { return job.run().send(to: call.exchange) }
        let reference = call.exchange.reference
        let isQueued = gateway.workers.submit {
            let reply = job.run()
            reference.perform { reply.send(to: $0) }
        }
        // The write is done, but there is no room to say what it was.
        if !isQueued { respond(.overloaded, to: call.exchange) }
    }
}

extension LoopLink: WriteSink {
    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        post { $0.written(outcomes) }
    }
}
