import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// `/.settings/rules.json`: the security rules, for administrators (reference: security-rules 12).
    func rulesSettings(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        let parameters = try RESTParameters.settings(request.query)
        let name = try NamespaceName.find(request, parameters, gateway.settings)
        try withIdentity(request, parameters, namespace: name, exchange) { loop, identity, exchange in
            do throws(RESTError) {
                guard identity.mayAdminister else { throw .permissionDenied }
                try loop.rulesSettings(request, name, identity, exchange)
            } catch {
                loop.respond(error, to: exchange)
            }
        }
    }

    private func rulesSettings(
        _ request: HTTPRequest, _ name: String, _ identity: Identity, _ exchange: HTTPExchange
    ) throws(RESTError) {
        switch request.method {
        case .get, .head:
            let isStrict = request.query?.elementsContain("format=strict") ?? false
            withNamespace(name, exchange) { loop, namespace, exchange in
                let set = namespace.snapshot.rules.set
                exchange.respond(
                    status: 200, headers: Self.errorHeaders, body: isStrict ? set.strictSource : set.source)
            }
        case .put:
            let origin = identity.origin(via: .rest, address: clientAddress(of: request).description)
            compile(request.body, exchange) { loop, rules, exchange in
                // Tools ask first whether rules are good.
                if request.query?.elementsContain("dryRun=true") ?? false {
                    return exchange.respond(
                        status: 200, headers: Self.errorHeaders, body: Array("{\"status\":\"ok\"}".utf8))
                }
                loop.withNamespace(name, exchange) { loop, namespace, exchange in
                    loop.adopt(rules, origin, namespace, exchange)
                }
            }
        default: throw RESTError(405, "The method must be GET or PUT")
        }
    }

    /// Compiles a document on a worker, and goes on with it; answers by itself where it is wrong.
    private func compile(
        _ text: [UInt8], _ exchange: HTTPExchange,
        _ body: @escaping @Sendable (GatewayLoop, RuleSet, HTTPExchange) -> Void
    ) {
        guard let link else { return }
        let reference = exchange.reference
        let isQueued = gateway.workers.submit {
            let compiled: Result<RuleSet, RESTError>
            do throws(RulesError) {
                compiled = .success(try RuleSet(json: text))
            } catch {
                compiled = .failure(RESTError(400, "\(error)"))
            }
            link.post { loop in
                guard let exchange = loop.loop.exchange(for: reference) else { return }
                switch compiled {
                case .success(let rules): body(loop, rules, exchange)
                case .failure(let error): loop.respond(error, to: exchange)
                }
            }
        }
        if !isQueued { respond(EngineError.overloaded, to: exchange) }
    }

    private func adopt(_ rules: RuleSet, _ origin: Origin, _ namespace: LiveNamespace, _ exchange: HTTPExchange) {
        let write = Write(
            .rules(rules), operation: .rules, byteCount: rules.source.count, auth: .admin, origin: origin)
        let reference = exchange.reference
        namespace.submit(write, to: RulesSink(reference), token: 0)
    }

    /// Does `work` with a namespace and the exchange, now or when the namespace is loaded.
    func withNamespace(
        _ name: String, _ exchange: HTTPExchange,
        _ work: @escaping @Sendable (GatewayLoop, LiveNamespace, HTTPExchange) -> Void
    ) {
        guard let link else { return }
        let reference = exchange.reference
        gateway.engine.withNamespace(name) { result in
            link.post { loop in
                guard let exchange = loop.loop.exchange(for: reference) else { return }
                switch result {
                case .success(let namespace): work(loop, namespace, exchange)
                case .failure(let error): loop.respond(error, to: exchange)
                }
            }
        }
    }
}

/// Answers an upload of rules.
private final class RulesSink: WriteSink {
    private let reference: ExchangeReference

    init(_ reference: ExchangeReference) { self.reference = reference }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (_, outcome) in outcomes {
            reference.perform { exchange in
                if case .committed(let seq, _) = outcome {
                    exchange.respond(
                        status: 200, headers: GatewayLoop.errorHeaders.adding("X-Pathmirror-Seq", "\(seq)"),
                        body: Array("{\"status\":\"ok\"}".utf8))
                } else {
                    exchange.respond(
                        status: 503, headers: GatewayLoop.errorHeaders.adding("Retry-After", "1"),
                        body: ErrorBody.encode("The rules could not be stored. Try again later."))
                }
            }
        }
    }
}

extension ArraySlice<UInt8> {
    fileprivate func elementsContain(_ text: String) -> Bool {
        String(decoding: self, as: UTF8.self).contains(text)
    }
}
