import Engine
public import Feeds
import HTTPServer
import LogStore
import Placement
import Runtime
import Tokens
public import Tree
import Wire

/// Serves `/.log` by the read side of the Durable Streams protocol. Administrators read the whole log, and
/// viewers all of it except the authors; a client with a feed's token reads the part below the feed's base path. One for
/// each loop.
///
/// A request goes through these steps, with the statuses by which a step refuses it. A step that needs another thread
/// waits for it by `ExchangeWaits`:
///
///     method, namespace              405, 400
///       | identity, rates            401, 429
///       | right of the credential    401
///       | parameters                 400
///       | seat (LogSeats)            503
///       | path of the feed           401, 503
///       | namespace is loaded        404, 503
///       v
///     extent: head, oldest entry     503
///       |------------------------------ HEAD -> headers alone
///       |
///       | offset=now without live -----------> an empty array at the head
///       v
///     first slice                    410 (pruned, other history, damaged), 503
///       |-- catchUp  --> DurableAnswers: the slice as one array
///       |-- longPoll --> LogPoll:   answers with the first lines, or when its time is over
///       `-- events   --> LogStream: events for each slice, until its time is over
///
/// `LogHub` keeps a `LogPoll` or a `LogStream` until it has ended, and ends it early if its credential is no longer
/// valid, its feed was removed or the gateway stops. A request takes its seat before the first query about the log, and
/// keeps the seat until the last query is answered, even if the client disconnects.
final class LogHandler {
    private let services: LoopServices
    private let databases: Databases
    private let callers: CallerResolver
    private let namespaces: NamespaceWaits
    private let hub: LogHub
    private let feedBasePath: FeedBasePath
    private let basePaths: ExchangeWaits<Result<Path?, any Error>>
    private let existences: ExchangeWaits<Result<Bool, LogReadError>>
    private let extents: ExchangeWaits<Result<LogExtent, LogReadError>>
    private let slices: ExchangeWaits<Result<LogSlice, LogReadError>>

    init(
        _ services: LoopServices, _ databases: Databases, _ callers: CallerResolver, _ namespaces: NamespaceWaits,
        _ hub: LogHub,
        _ feedBasePath: @escaping FeedBasePath
    ) {
        self.services = services
        self.databases = databases
        self.callers = callers
        self.namespaces = namespaces
        self.hub = hub
        self.feedBasePath = feedBasePath
        basePaths = ExchangeWaits(services.loop)
        existences = ExchangeWaits(services.loop)
        extents = ExchangeWaits(services.loop)
        slices = ExchangeWaits(services.loop)
    }

    /// A request before its first slice.
    private struct ListenState {
        let parameters: LogParameters
        let identity: Identity
        let namespace: LiveNamespace
        let view: LogView
        let ifNoneMatch: String?
        /// Taken before the log is read.
        let seat: LogSeats.Seat
    }

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        exchange.commonHeaders.add("X-Content-Type-Options", "nosniff")
        // A page with Cross-Origin-Embedder-Policy can read the log only with this header; CORS still decides which
        // pages can.
        exchange.commonHeaders.add("Cross-Origin-Resource-Policy", "cross-origin")
        exchange.commonHeaders.add("Access-Control-Expose-Headers", Self.exposedHeaders)
        guard request.method == .get || request.method == .head else {
            exchange.commonHeaders.add("Allow", "GET, HEAD")
            throw RESTError(405, "The method must be GET or HEAD")
        }
        let settings = try RESTParameters.settings(request.query)
        let name = try NamespaceName.find(request, settings, services.settings)
        try callers.withIdentity(request, settings, namespace: name, isForFeed: true, exchange) { [self] identity in
            guard callers.admits(identity, in: name, exchange) else { return }
            guard let right = Self.right(of: identity, in: name) else {
                return services.responder.respond(.permissionDenied, to: exchange)
            }
            let parameters: LogParameters
            do throws(RESTError) {
                parameters = try LogParameters(request.query)
            } catch {
                return services.responder.respond(error, to: exchange)
            }
            guard let seat = hub.seats.take(for: identity, in: name) else {
                return services.responder.respond(
                    RESTError(503, "Too many clients are reading the log"), to: exchange, retryAfter: 5)
            }
            withPath(parameters.path, right, seat, exchange) { [self] path in
                whenThere(name, seat, exchange) { [self] namespace in
                    let view = LogView(
                        namespace: namespace.id, name: namespace.name, path: path,
                        hasOrigins: identity.mayAdminister)
                    look(
                        ListenState(
                            parameters: parameters, identity: identity, namespace: namespace, view: view,
                            ifNoneMatch: request.headerText("if-none-match"), seat: seat), exchange)
                }
            }
        }
    }

    private static let exposedHeaders =
        "ETag, Stream-Next-Offset, Stream-Up-To-Date, Stream-Cursor, X-Pathmirror-Seq, X-Pathmirror-Oldest-Seq, Retry-After"

    // MARK: Permissions

    /// A caller's right to read a namespace's log.
    private enum Right {
        /// An administrator or a viewer.
        case whole
        /// The token of a feed. It is not known yet whether the feed exists.
        case feed(FeedName, FeedAccess)
    }

    /// Returns the right that the credential alone gives; nil if it gives none. A caller without a right takes no seat.
    private static func right(of identity: Identity, in name: String) -> Right? {
        if identity.mayReadLog { return .whole }
        guard let feed = identity.feed?.feed, let access = identity.access(toFeed: feed.feed, in: name) else {
            return nil
        }
        return .feed(FeedName(namespace: name, name: feed.feed), access)
    }

    /// Calls `body` with the path whose log the caller may read; answers the request if there is none.
    private func withPath(
        _ wanted: Path?, _ right: Right, _ seat: LogSeats.Seat, _ exchange: HTTPExchange,
        _ body: @escaping (Path) -> Void
    ) {
        guard case .feed(let feed, let access) = right else { return body(wanted ?? .root) }
        let found = basePaths.wait(exchange) { [services] result in
            // A token that may be valid is not refused while the database is unavailable.
            guard case .success(let base) = result else {
                return services.responder.respond(
                    RESTError(503, "The database is unavailable. Try again later."), to: exchange, retryAfter: 1)
            }
            guard let base, base.contains(wanted ?? base) else {
                return services.responder.respond(.permissionDenied, to: exchange)
            }
            body(wanted ?? base)
        }
        // The look-up keeps the seat, so that a client that disconnects does not free it before the answer.
        feedBasePath(feed, access) { result in withExtendedLifetime(seat) { found(result) } }
    }

    /// Calls `body` with the namespace once it is loaded. Answers 404 if there is no such namespace: reading a log does
    /// not create it, unlike a write or a listen with `pathmirror dev`.
    private func whenThere(
        _ name: String, _ seat: LogSeats.Seat, _ exchange: HTTPExchange, _ body: @escaping (LiveNamespace) -> Void
    ) {
        guard databases.liveNamespace(name) == nil, let engine = databases.member(of: name)?.engine else {
            return namespaces.whenLoaded(name, exchange, body)
        }
        let found = existences.wait(exchange) { [self] result in
            switch result {
            case .failure(let error): LogRefusal(error).respond(exchange, services.responder)
            case .success(true): namespaces.whenLoaded(name, exchange, body)
            case .success(false): services.responder.respond(EngineError.unknownNamespace(name), to: exchange)
            }
        }
        engine.logs.exists(name) { result in withExtendedLifetime(seat) { found(result) } }
    }

    // MARK: Beginning

    private func look(_ asked: ListenState, _ exchange: HTTPExchange) {
        let found = extents.wait(exchange) { [self] result in
            switch result {
            case .failure(let error): LogRefusal(error).respond(exchange, services.responder)
            case .success(let extent):
                exchange.commonHeaders.add("X-Pathmirror-Seq", "\(extent.head.seq)")
                if exchange.isHead { return describe(extent, exchange) }
                begin(asked, extent, exchange)
            }
        }
        databases.engine(of: asked.namespace).logs.extent(of: asked.view) { result in
            withExtendedLifetime(asked.seat) { found(result) }
        }
    }

    private func describe(_ extent: LogExtent, _ exchange: HTTPExchange) {
        let tail = LogLinePosition(extent.head)
        exchange.respond(
            status: 200,
            headers: [
                "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store",
                "Stream-Next-Offset": LogPositionText.offset(tail), "X-Pathmirror-Oldest-Seq": "\(extent.oldest)",
            ])
    }

    private func begin(_ asked: ListenState, _ extent: LogExtent, _ exchange: HTTPExchange) {
        let head = LogLinePosition(extent.head)
        switch asked.parameters.start {
        case .head where asked.parameters.mode == .catchUp:
            // The answer has no lines, even if entries have been committed since the head was read.
            answers(asked, head, cursor: nil).respond(LogSlice(emptyAt: head), exchange)
        case .head: readFirst(asked, at: head, head, exchange)
        // The head's batch lets a later request detect that entries were lost.
        case .oldest where extent.oldest > extent.head.seq: readFirst(asked, at: head, head, exchange)
        case .oldest: readFirst(asked, at: LogLinePosition(LogPosition(seq: extent.oldest - 1)), head, exchange)
        case .after(let position): readFirst(asked, at: position, head, exchange)
        }
    }

    /// - Parameter head: the head at the time of the look-up.
    private func readFirst(
        _ asked: ListenState, at start: LogLinePosition, _ head: LogLinePosition, _ exchange: HTTPExchange
    ) {
        let found = slices.wait(exchange) { [self] result in
            switch result {
            case .failure(.pruned(let oldest))
            where asked.parameters.start == .oldest && start.entry.batch == nil && oldest > start.seq + 1:
                // Retention has removed the oldest entry. The request named no entry, so it begins with the next oldest
                // one, or, if no entry is left, at the head, whose batch identifies the log's history.
                readFirst(
                    asked, at: oldest > head.seq ? head : LogLinePosition(LogPosition(seq: oldest - 1)), head, exchange)
            case .failure(let error): LogRefusal(error).respond(exchange, services.responder)
            case .success(let slice): answer(asked, start, slice, exchange)
            }
        }
        databases.engine(of: asked.namespace).logs.slice(asked.view, at: start) { result in
            withExtendedLifetime(asked.seat) { found(result) }
        }
    }

    private func answer(_ asked: ListenState, _ start: LogLinePosition, _ first: LogSlice, _ exchange: HTTPExchange) {
        switch asked.parameters.mode {
        case .catchUp: answers(asked, start, cursor: nil).respond(first, exchange)
        case .longPoll(let shown):
            let poll = LogPoll(
                exchange, asked.identity, asked.namespace, asked.view, at: start,
                answers(asked, start, cursor: StreamCursor.next(after: shown)), hub)
            hub.add(poll, asked.seat, first, forMilliseconds: services.settings.logPollMilliseconds)
        case .events(let shown):
            exchange.startStream(headers: [
                "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            ])
            let stream = LogStream(
                exchange, asked.identity, asked.namespace, asked.view, cursor: shown, at: start,
                bufferBytes: services.settings.streamBufferBytes, hub)
            hub.add(stream, asked.seat, first, forMilliseconds: services.settings.logEventsMilliseconds)
        }
    }

    private func answers(_ asked: ListenState, _ start: LogLinePosition, cursor: Int64?) -> DurableAnswers {
        DurableAnswers(
            responder: services.responder, view: asked.view, start: start,
            isOfEnd: asked.parameters.start == .head, cursor: cursor, ifNoneMatch: asked.ifNoneMatch)
    }
}

/// Determines the part of a namespace's log that a client with a feed's token may read: the path below the fixed keys
/// at the beginning of the feed's pattern. Calls back once, on any thread: with nil if the feed does not exist or the
/// token is for another feed of its name, and with an error if the database is unavailable.
public typealias FeedBasePath =
    @Sendable (
        _ feed: FeedName, _ access: FeedAccess, _ completion: @escaping @Sendable (Result<Path?, any Error>) -> Void
    ) -> Void
