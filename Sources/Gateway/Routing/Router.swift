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

/// What a request asks for, by its path and method alone.
enum Route: Equatable {
    /// Browsers ask before requests to other origins what they may send.
    case preflight
    case data
    case live
    case ready
    case metrics
    case webSocket
    case longPoll
    case rules
    case feeds
    case log
    case description
    /// A path that no data can have, and that is nothing else here.
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

    /// Whether the path is one that data can have, or a mistaken one.
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
        case "/.log": .log
        case "/.openapi.json": .description
        default: .nothing
        }
    }
}
