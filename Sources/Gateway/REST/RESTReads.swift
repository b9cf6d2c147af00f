import Engine
import HTTPServer
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
