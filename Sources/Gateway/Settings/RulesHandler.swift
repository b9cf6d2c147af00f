import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// Serves `/.settings/rules.json`: the security rules, for administrators, and for viewers to read (reference:
/// security-rules 12). One for each loop.
final class RulesHandler {
    private let services: LoopServices
    private let callers: CallerResolver
    private let namespaces: NamespaceWaits
    private let compilations: ExchangeWaits<Result<RuleSet, RESTError>>

    init(_ services: LoopServices, _ callers: CallerResolver, _ namespaces: NamespaceWaits) {
        self.services = services
        self.callers = callers
        self.namespaces = namespaces
        compilations = ExchangeWaits(services.loop)
    }

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        let parameters = try RESTParameters.settings(request.query)
        let name = try NamespaceName.find(request, parameters, services.settings)
        try callers.withIdentity(request, parameters, namespace: name, exchange) { [self] identity in
            let isRead = request.method == .get || request.method == .head
            guard identity.mayAdminister || isRead && identity.mayReadRules else {
                return services.responder.respond(.permissionDenied, to: exchange)
            }
            switch request.method {
            case .get, .head: show(name, isStrict: request.queryContains("format=strict"), exchange)
            case .put: replace(request, name, identity, exchange)
            default: services.responder.respond(RESTError(405, "The method must be GET or PUT"), to: exchange)
            }
        }
    }

    /// - Parameter isStrict: whether to return the document as strict JSON, without comments.
    private func show(_ name: String, isStrict: Bool, _ exchange: HTTPExchange) {
        namespaces.whenLoaded(name, exchange) { namespace in
            let set = namespace.snapshot.rules.set
            exchange.respond(
                status: 200, headers: Responder.plainHeaders, body: isStrict ? set.strictSource : set.source)
        }
    }

    private func replace(_ request: HTTPRequest, _ name: String, _ identity: Identity, _ exchange: HTTPExchange) {
        let origin = identity.origin(via: .rest, address: callers.clientAddress(of: request).description)
        // A dry run only validates the rules.
        let isTrial = request.queryContains("dryRun=true")
        compile(request.body, exchange) { [self] rules in
            if isTrial {
                exchange.respond(status: 200, headers: Responder.plainHeaders, body: Self.good)
                return
            }
            namespaces.whenLoaded(name, exchange) { [services] namespace in
                let write = Write(
                    .rules(rules), operation: .rules, byteCount: rules.source.count, auth: .admin, origin: origin)
                namespace.submit(write, to: RulesSink(exchange.reference, services.responder), token: 0)
            }
        }
    }

    /// Compiles a document on a worker and passes the result to `body`. Answers the request itself if the document is
    /// invalid.
    private func compile(_ text: [UInt8], _ exchange: HTTPExchange, _ body: @escaping (RuleSet) -> Void) {
        let compiled = compilations.wait(exchange) { [services] result in
            switch result {
            case .success(let rules): body(rules)
            case .failure(let error): services.responder.respond(error, to: exchange)
            }
        }
        let isQueued = services.workers.submit {
            do throws(RulesError) {
                compiled(.success(try RuleSet(json: text)))
            } catch {
                compiled(.failure(RESTError(400, "\(error)")))
            }
        }
        guard !isQueued else { return }
        compilations.cancel(exchange)
        services.responder.respond(EngineError.overloaded, to: exchange)
    }

    fileprivate static let good = Array("{\"status\":\"ok\"}".utf8)
}

/// Answers an upload of rules.
private final class RulesSink: WriteSink {
    private static let notStored = RESTError(503, "The rules could not be stored. Try again later.")

    private let reference: ExchangeReference
    private let responder: Responder

    init(_ reference: ExchangeReference, _ responder: Responder) {
        self.reference = reference
        self.responder = responder
    }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (_, outcome) in outcomes {
            reference.perform { [responder] exchange in
                if case .failed(.readOnly) = outcome {
                    responder.respond(EngineError.readOnly, to: exchange)
                } else if case .committed(let seq, _) = outcome {
                    exchange.respond(
                        status: 200, headers: Responder.plainHeaders.adding("X-Pathmirror-Seq", "\(seq)"),
                        body: RulesHandler.good)
                } else {
                    exchange.respond(
                        status: Self.notStored.status, headers: Responder.plainHeaders.adding("Retry-After", "1"),
                        body: ErrorBody.encode(Self.notStored.message))
                }
            }
        }
    }
}

extension HTTPRequest {
    fileprivate func queryContains(_ text: String) -> Bool {
        query.map { String(decoding: $0, as: UTF8.self).contains(text) } ?? false
    }
}
