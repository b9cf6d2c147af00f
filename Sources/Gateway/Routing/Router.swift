import HTTPServer
import Rules
import Wire

/// Hands each request to whoever serves it, unless its page or its address is refused. One for each loop.
final class Router {
    /// Who serves what.
    struct Handlers {
        let data: RESTHandler
        let operations: OperationsHandler
        let rules: RulesHandler
        let webSockets: WebSocketHandler
        let polls: LongPollHandler
        /// Nil where the gateway works no feeds.
        let feeds: FeedsHandler?
        let log: LogHandler
        let description = DescriptionHandler()
    }

    private let services: LoopServices
    private let callers: Callers
    private let pages: PageGate
    private let handlers: Handlers

    init(_ services: LoopServices, _ callers: Callers, _ pages: PageGate, _ handlers: Handlers) {
        self.services = services
        self.callers = callers
        self.pages = pages
        self.handlers = handlers
    }

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) {
        guard pages.admits(request, exchange) else { return }
        let route = Route(request.method, request.path)
        if case .feeds = route, handlers.feeds?.serveForwarded(request, exchange) == true { return }
        guard callers.admits(request, exchange) else { return }
        do throws(RESTError) {
            switch route {
            case .preflight: services.responder.respondToPreflight(request, exchange)
            case .data: try handlers.data.serve(request, exchange)
            case .live: handlers.operations.live(exchange)
            case .ready: try handlers.operations.ready(request, exchange)
            case .metrics: try handlers.operations.metrics(request, exchange)
            case .webSocket: try handlers.webSockets.open(request, exchange)
            case .longPoll: try handlers.polls.serve(request, exchange)
            case .rules: try handlers.rules.serve(request, exchange)
            case .feeds:
                guard let feeds = handlers.feeds else { throw Self.nothing }
                try feeds.serve(request, exchange)
            case .log: try handlers.log.serve(request, exchange)
            case .description: try handlers.description.serve(request, exchange)
            case .nothing: throw Self.nothing
            }
        } catch {
            services.responder.respond(error, to: exchange)
        }
    }

    /// The refusal of a path that begins with a dot and has no handler: no data can have it.
    private static let nothing = RESTError(404, "There is nothing at this path")

    /// Only administrators send large bodies: restores and bulk loads. Who has to be asked about elsewhere first counts as
    /// no administrator here.
    func allowsLargeBody(_ head: HTTPRequest) -> Bool {
        guard let parameters = try? RESTParameters.settings(head.query),
            let name = try? NamespaceName.find(head, parameters, services.settings)
        else { return false }
        return callers.knownIdentity(head, parameters, namespace: name)?.context.isAdmin ?? false
    }
}
