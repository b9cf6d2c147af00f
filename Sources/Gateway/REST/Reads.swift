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
