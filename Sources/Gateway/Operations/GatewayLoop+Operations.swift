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
            let readiness = Readiness(gateway)
            exchange.respond(
                status: readiness.isReady ? 200 : 503, headers: Self.errorHeaders, body: readiness.body)
        case ("/.metrics", .get), ("/.metrics", .head):
            exchange.respond(
                status: 200, headers: ["Content-Type": "text/plain; version=0.0.4; charset=utf-8"],
                body: Array(MetricsReport(gateway).text.utf8))
        case ("/.ws", _): try openWebSocket(request, exchange)
        case ("/.lp", _): try longPoll(request, exchange)
        case ("/.settings/rules.json", _): try rulesSettings(request, exchange)
        default:
            try RequestPath.refuse(request.path)
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
