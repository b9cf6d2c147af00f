import Feeds
import HTTPServer
import Runtime
import Wire

/// Serves `/.settings/functionTriggers.json` of `pathmirror dev`, as the Realtime Database emulator does. One for each loop.
final class FunctionTriggersHandler {
    private let services: LoopServices
    private let callers: CallerResolver
    private let registry: any FunctionRegistry

    init(_ services: LoopServices, _ callers: CallerResolver, _ registry: any FunctionRegistry) {
        self.services = services
        self.callers = callers
        self.registry = registry
    }

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        let parameters = try RESTParameters.settings(request.query)
        let namespace = try NamespaceName.find(request, parameters, services.settings)
        try callers.withIdentity(request, parameters, namespace: namespace, exchange) {
            [services, registry] identity in
            // A function may concern all namespaces.
            guard identity.mayOperate else { return services.responder.respond(.permissionDenied, to: exchange) }
            guard request.method == .put || request.method == .post else {
                return services.responder.respond(RESTError(405, "The method must be PUT or POST"), to: exchange)
            }
            let trigger: FunctionTrigger
            do throws(FunctionTrigger.Mistake) {
                trigger = try FunctionTrigger(request.body)
            } catch {
                return services.responder.respond(
                    RESTError(400, "The function can't be registered: \(error)"), to: exchange)
            }
            let reference = exchange.reference
            registry.register(trigger) { [responder = services.responder] problem in
                reference.perform { exchange in
                    if let problem {
                        return responder.respond(RESTError(503, "The function has no feed: \(problem)"), to: exchange)
                    }
                    exchange.respond(
                        status: 200, headers: Responder.plainHeaders, body: Array("{\"status\":\"ok\"}".utf8))
                }
            }
        }
    }
}
