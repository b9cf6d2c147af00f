import Engine
import HTTPServer
import Rules
import Runtime
import Synchronization
import Tree
import Wire

/// Serves requests that write: reads the body, queues the write, and answers when it is committed. One for each loop.
///
/// If the rules refuse a write regardless of the stored and written values, the client gets the refusal first: the
/// gateway does not decompress, parse, count or queue the body.
final class RESTWrites {
    private let services: LoopServices
    private let callers: CallerResolver
    private let pushIDs: PushIDs
    private let deniedWrites: Counter
    private let calls = WaitingCalls()
    private let link: LoopLink<RESTWrites>
    private let sink: RESTWriteSink

    /// - Parameter deniedWrites: counts the writes that the rules refuse.
    init(_ services: LoopServices, _ callers: CallerResolver, _ pushIDs: PushIDs, deniedWrites: Counter) {
        self.services = services
        self.callers = callers
        self.pushIDs = pushIDs
        self.deniedWrites = deniedWrites
        link = LoopLink(services.loop)
        sink = RESTWriteSink(link)
        link.lead(to: self)
    }

    /// Returns a name for the child that a POST creates.
    func nextPushID() -> String { pushIDs.next() }

    /// Answers a request that the rules refuse regardless of the written and the stored values.
    func refuse(_ call: Call) {
        services.metrics.writes.add()
        if let mistake = Self.mistake(in: call) { return respond(mistake, to: call) }
        deny(call)
    }

    /// Returns the error of an invalid request, checked before its body.
    private static func mistake(in call: Call) -> RESTError? {
        if call.request.header("if-match") != nil, call.method != .put, call.method != .delete {
            return RESTError(400, "if-match is only supported on PUT and DELETE")
        }
        guard call.parameters.query == nil else {
            return RESTError(400, "Querying related parameters not supported on this request type")
        }
        return nil
    }

    func write(_ call: Call, _ namespace: LiveNamespace) {
        services.metrics.writes.add()
        if let mistake = Self.mistake(in: call) { return respond(mistake, to: call) }
        let snapshot = namespace.snapshot
        let permission = WritePermission(snapshot.rules.set, call.auth, now: Clock.unixMilliseconds)
        let job = WriteJob(
            call, services.settings, permission, name: call.method == .post ? pushIDs.next() : nil)
        guard permission.mayBeGiven(at: job.path, job.reach) else { return deny(call) }
        // A write that the rules refuse because of the stored data must not use up the namespace's write limit.
        if permission.mayBeGiven(at: job.path, job.reach, root: snapshot.root) {
            guard callers.admitsWrite(call.request.body.count, to: call.namespaceName, call.exchange) else { return }
        }
        guard job.isHeavy else { return parsed(job.run(), call, namespace) }
        parseLarge(job, call, namespace)
    }

    // MARK: Large bodies

    private func parseLarge(_ job: WriteJob, _ call: Call, _ namespace: LiveNamespace) {
        calls.suspend(call)
        let id = call.exchange.id
        if call.auth.isAdmin { return parse(job, on: nil, id, namespace) }
        // A write that is refused in the end must not cost a committer any time: a worker tries it on the newest tree
        // first.
        namespace.withCurrentSnapshot { [link] result in
            link.post { writes in
                switch result {
                case .success(let snapshot): writes.parse(job, on: snapshot, id, namespace)
                case .failure(let error):
                    if let call = writes.calls.resume(id) {
                        writes.services.responder.respond(error, to: call.exchange)
                    }
                }
            }
        }
    }

    /// Parses a large body on a worker.
    private func parse(_ job: WriteJob, on snapshot: Snapshot?, _ id: UInt64, _ namespace: LiveNamespace) {
        let isQueued = services.workers.submit { [link] in
            let result = job.run(on: snapshot)
            link.post { writes in
                if let call = writes.calls.resume(id) { writes.parsed(result, call, namespace) }
            }
        }
        if !isQueued, let call = calls.resume(id) { services.responder.respond(.overloaded, to: call.exchange) }
    }

    // MARK: The write

    private func parsed(_ result: Result<WriteJob.Parsed, RESTError>, _ call: Call, _ namespace: LiveNamespace) {
        switch result {
        case .failure(.permissionDenied): deny(call)
        case .failure(let error): respond(error, to: call)
        case .success(let parsed):
            call.bodyBytes = parsed.bodyBytes
            call.pushedName = parsed.name
            call.memory = parsed.share
            if let refusal = parsed.refusal { return answer(call, refusal) }
            calls.suspend(call)
            namespace.submit(parsed.write, to: sink, token: call.exchange.id)
        }
    }

    private func deny(_ call: Call) {
        deniedWrites.add()
        respond(.permissionDenied, to: call)
    }

    // MARK: Answers

    /// Answers writes that a committer has finished.
    fileprivate func written(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (token, outcome) in outcomes {
            if let call = calls.resume(token) { answer(call, outcome) }
        }
    }

    private func answer(_ call: Call, _ outcome: WriteOutcome) {
        switch outcome {
        case .committed(let seq, let changes): answer(call, .committed(changes), seq)
        case .preconditionFailed(let seq, let current?): answer(call, .stale(current), seq)
        case .preconditionFailed(_, nil):
            respond(RESTError(412, "The value does not have the ETag of if-match"), to: call)
        case .denied: respond(.permissionDenied, to: call)
        case .tooLarge: respond(RESTError(400, AnswerText.tooBig), to: call)
        case .refused(let reason): respond(RESTError(400, reason), to: call)
        case .failed(let error): services.responder.respond(error, to: call.exchange)
        }
    }

    /// Answers with data. A worker encodes large answers.
    private func answer(_ call: Call, _ result: WriteAnswer.Result, _ seq: Int64) {
        let job = WriteAnswer(call, result, seq, services.settings)
        guard job.isHeavy(services.settings) else { return job.run().send(to: call.exchange) }
        let reference = call.exchange.reference
        let isQueued = services.workers.submit {
            let reply = job.run()
            reference.perform { reply.send(to: $0) }
        }
        // The write is committed, but the workers are too busy to encode the answer.
        if !isQueued { services.responder.respond(.overloaded, to: call.exchange) }
    }

    private func respond(_ error: RESTError, to call: Call) {
        services.refuse(call.exchange, in: call.namespaceName, error)
    }
}

/// Passes the outcomes of writes back to their loop.
private final class RESTWriteSink: WriteSink {
    private let link: LoopLink<RESTWrites>

    init(_ link: LoopLink<RESTWrites>) { self.link = link }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        link.post { $0.written(outcomes) }
    }
}

/// Creates the gateway's push ids. All loops share it, because ids of the same millisecond count up.
final class PushIDs: Sendable {
    private let generator = Mutex(PushIDGenerator())

    func next() -> String {
        generator.withLock { $0.next(milliseconds: Clock.unixMilliseconds) }
    }
}
