import HTTPServer
import Runtime
import Wire

/// Serves the operators' paths: `/.health/…` and `/.metrics`. One for each loop.
final class OperationsHandler {
    private let services: LoopServices
    private let callers: CallerResolver
    private let facts: GatewayMetricFacts

    init(_ services: LoopServices, _ callers: CallerResolver, _ facts: GatewayMetricFacts) {
        self.services = services
        self.callers = callers
        self.facts = facts
    }

    /// Answers that the process is running.
    func live(_ exchange: HTTPExchange) {
        exchange.respond(status: 200, headers: Responder.plainHeaders, body: Array("{\"status\":\"live\"}\n".utf8))
    }

    /// Answers whether the gateway should receive requests.
    func ready(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        try withOperator(request, exchange) { [facts] isOperator in
            let readiness = Readiness(facts, hasDetails: isOperator)
            exchange.respond(
                status: readiness.isReady ? 200 : 503, headers: Responder.plainHeaders, body: readiness.body)
        }
    }

    func metrics(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        try withOperator(request, exchange) { [services, facts] isOperator in
            guard isOperator else { return services.responder.respond(.permissionDenied, to: exchange) }
            exchange.respond(
                status: 200, headers: ["Content-Type": "text/plain; version=0.0.4; charset=utf-8"],
                body: Array(Metric.page(MetricSources(facts)).utf8))
        }
    }

    /// Determines whether a caller may see the gateway's numbers, which reveal facts about every namespace. Callers on
    /// this machine and in the configured networks may see them; other callers must be administrators of all
    /// namespaces.
    private func withOperator(
        _ request: HTTPRequest, _ exchange: HTTPExchange, _ body: @escaping (_ isOperator: Bool) -> Void
    ) throws(RESTError) {
        let address = callers.clientAddress(of: request)
        let settings = services.settings
        if callers.isFromLoopback(request) || settings.metricsNetworks.contains(where: { $0.contains(address) }) {
            return body(true)
        }
        let parameters = try RESTParameters.settings(request.query)
        try callers.withIdentity(request, parameters, namespace: settings.defaultNamespace, exchange) { identity in
            body(identity.mayOperate)
        }
    }
}
