import HTTPServer
import Rules
import Wire

/// Passes each request to its handler, unless its page or address is refused. One for each loop.
final class Router {
    /// The handlers of the routes.
    struct Handlers {
        let data: RESTHandler
        let operations: OperationsHandler
        let rules: RulesHandler
        /// Nil except in `pathmirror dev`.
        let functions: FunctionTriggersHandler?
        let webSockets: WebSocketHandler
        let polls: LongPollHandler
        /// Nil if the gateway runs no feeds.
        let feeds: FeedsHandler?
        let log: LogHandler
        let tokens: TokenHandler
        let description = DescriptionHandler()
    }

    private let services: LoopServices
    private let callers: CallerResolver
    private let pages: PageGate
    private let handlers: Handlers

    init(_ services: LoopServices, _ callers: CallerResolver, _ pages: PageGate, _ handlers: Handlers) {
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
            case .functions:
                guard let functions = handlers.functions else { throw Self.nothing }
                try functions.serve(request, exchange)
            case .feeds:
                guard let feeds = handlers.feeds else { throw Self.nothing }
                try feeds.serve(request, exchange)
            case .log: try handlers.log.serve(request, exchange)
            case .token: try handlers.tokens.serve(request, exchange)
            case .description: try handlers.description.serve(request, exchange)
            case .nothing: throw Self.nothing
            }
        } catch {
            services.responder.respond(error, to: exchange)
        }
    }

    /// Refuses a path that begins with a dot and has no handler. Data cannot have such a path.
    private static let nothing = RESTError(404, "There is nothing at this path")

    /// Returns whether the caller is an administrator: only administrators send large bodies, such as restores and bulk
    /// loads. A caller whose credential another server has to check does not count as an administrator here.
    func allowsLargeBody(_ head: HTTPRequest) -> Bool {
        guard let parameters = try? RESTParameters.settings(head.query),
            let name = try? NamespaceName.find(head, parameters, services.settings)
        else { return false }
        return callers.knownIdentity(head, parameters, namespace: name)?.context.isAdmin ?? false
    }
}

/// The kind of a request, determined by its path and method alone.
enum Route: Equatable {
    /// A CORS preflight request.
    case preflight
    case data
    case live
    case ready
    case metrics
    case webSocket
    case longPoll
    case rules
    case functions
    case feeds
    case log
    case token
    case description
    /// A path that data cannot have, and that has no handler.
    case nothing

    /// - Parameter path: still percent-encoded.
    init(_ method: HTTPMethod, _ path: ArraySlice<UInt8>) {
        if method == .options {
            self = .preflight
        } else if Self.isOfData(path) {
            self = .data
        } else {
            self = Self.ofOperators(method, path)
        }
    }

    /// Returns whether the path may belong to data. Invalid data paths count as well.
    private static func isOfData(_ path: ArraySlice<UInt8>) -> Bool {
        guard path.count > 2, path[path.startIndex + 1] == UInt8(ascii: ".") else { return true }
        return path.elementsEqual("/.json".utf8) || path.elementsEqual("/.priority.json".utf8)
    }

    private static func ofOperators(_ method: HTTPMethod, _ path: ArraySlice<UInt8>) -> Route {
        if path.starts(with: "/.feeds".utf8), path.count == 7 || path[path.startIndex + 7] == UInt8(ascii: "/") {
            return .feeds
        }
        let isRead = method == .get || method == .head
        return switch String(decoding: path, as: UTF8.self) {
        case "/.health/live" where isRead: .live
        case "/.health/ready" where isRead: .ready
        case "/.metrics" where isRead: .metrics
        case "/.ws": .webSocket
        case "/.lp": .longPoll
        case "/.settings/rules.json": .rules
        case "/.settings/functionTriggers.json": .functions
        case "/.log": .log
        case "/.oauth2/token": .token
        case "/.openapi.json": .description
        default: .nothing
        }
    }
}
