import Engine
import HTTPServer
import Runtime
import Tree
import Wire

/// Answers GET requests. One for each loop.
struct RESTReads {
    private let services: LoopServices

    init(_ services: LoopServices) { self.services = services }

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
        guard node.rowCount > services.settings.heavyRows else { return job.run().send(to: call.exchange) }
        let reference = call.exchange.reference
        let isQueued = services.workers.submit {
            let answer = job.run()
            reference.perform { answer.send(to: $0) }
        }
        if !isQueued { services.responder.respond(.overloaded, to: call.exchange) }
    }
}
