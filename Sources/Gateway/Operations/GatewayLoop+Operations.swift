import HTTPServer
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// Paths that no data can have: `/.health/…`, `/.metrics`, `/.settings/…`, `/.inspect/…`.
    func operations(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        switch (String(decoding: request.path, as: UTF8.self), request.method) {
        case ("/.health/live", .get), ("/.health/live", .head):
            exchange.respond(status: 200, headers: Self.errorHeaders, body: Array("{\"status\":\"live\"}\n".utf8))
        case ("/.health/ready", .get), ("/.health/ready", .head):
            try withOperator(request, exchange) { loop, isOperator, exchange in
                let readiness = Readiness(loop.gateway, hasDetails: isOperator)
                exchange.respond(
                    status: readiness.isReady ? 200 : 503, headers: Self.errorHeaders, body: readiness.body)
            }
        case ("/.metrics", .get), ("/.metrics", .head):
            try withOperator(request, exchange) { loop, isOperator, exchange in
                guard isOperator else { return loop.respond(.permissionDenied, to: exchange) }
                exchange.respond(
                    status: 200, headers: ["Content-Type": "text/plain; version=0.0.4; charset=utf-8"],
                    body: Array(MetricsReport(loop.gateway).text.utf8))
            }
        case ("/.ws", _): try openWebSocket(request, exchange)
        case ("/.lp", _): try longPoll(request, exchange)
        case ("/.settings/rules.json", _): try rulesSettings(request, exchange)
        default:
            try RequestPath.refuse(request.path)
        }
    }

    /// Finds out whether a caller may know how the gateway does: its numbers tell of every namespace. From this machine,
    /// and from the networks that are set, everybody may; elsewhere it takes an administrator of everything.
    private func withOperator(
        _ request: HTTPRequest, _ exchange: HTTPExchange,
        _ body: @escaping @Sendable (GatewayLoop, _ isOperator: Bool, HTTPExchange) -> Void
    ) throws(RESTError) {
        let address = clientAddress(of: request)
        if isFromLoopback(request) || gateway.settings.metricsNetworks.contains(where: { $0.contains(address) }) {
            return body(self, true, exchange)
        }
        let parameters = try RESTParameters.settings(request.query)
        try withIdentity(request, parameters, namespace: gateway.settings.defaultNamespace, exchange) {
            loop, identity, exchange in body(loop, identity.mayOperate, exchange)
        }
    }
}

extension RequestPath {
    /// The refusal of a path that is neither data nor anything else here.
    static func refuse(_ path: ArraySlice<UInt8>) throws(RESTError) {
        _ = try parse(path)
        throw RESTError(404, "There is nothing at this path")
    }
}
