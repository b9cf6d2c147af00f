import Crypto
import Engine
import HTTPServer
import Runtime
import Wire

/// Serves `/.ws`: greets WebSocket clients, and begins their sessions (reference: rtdb-protocol 1). One for each loop.
final class WebSocketHandler {
    private let services: LoopServices
    private let callers: CallerResolver
    private let namespaces: NamespaceWaits
    private let context: RealtimeContext
    private let hub: RealtimeHub
    private let upgrades: SocketUpgrades
    private let parsers: WebSocketParsers

    init(
        _ services: LoopServices, _ callers: CallerResolver, _ namespaces: NamespaceWaits, _ context: RealtimeContext,
        _ hub: RealtimeHub
    ) {
        self.services = services
        self.callers = callers
        self.namespaces = namespaces
        self.context = context
        self.hub = hub
        upgrades = SocketUpgrades(context)
        parsers = WebSocketParsers(maxMessageBytes: services.settings.maxMessageBytes)
    }

    /// The parameters of a handshake.
    private struct Opening {
        let accept: String
        let host: String
        let lastSession: String?
        let pollingSession: String?
        let isExtended: Bool
        let isLoopback: Bool
        let remoteAddress: IPAddress
    }

    func open(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        guard request.method == .get, request.isUpgrade, request.headerText("upgrade")?.lowercased() == "websocket",
            let key = request.headerText("sec-websocket-key"), (16...64).contains(key.utf8.count)
        else { throw RESTError(400, "This path is for WebSocket clients") }
        guard request.headerText("sec-websocket-version") == "13" else {
            throw RESTError(400, "The WebSocket version must be 13")
        }
        let parameters = RealtimeParameters(request.query)
        guard parameters.version == "5" else { throw RESTError(400, "The protocol version must be 5") }
        let name = try NamespaceName.find(request, parameters.namespace, services.settings)
        guard hub.hasRoom else { throw RESTError(503, "Too many sessions are open") }
        exchange.namespace = name
        let opening = Opening(
            accept: Self.acceptKey(key), host: request.host.map { String(decoding: $0, as: UTF8.self) } ?? "localhost",
            lastSession: parameters.lastSession, pollingSession: parameters.pollingSession,
            isExtended: parameters.asksForExtension, isLoopback: callers.isFromLoopback(request),
            remoteAddress: callers.clientAddress(of: request))
        namespaces.whenLoaded(name, exchange) { [self] namespace in greet(opening, namespace, exchange) }
    }

    /// Returns the key that proves to the client that its handshake was understood.
    static func acceptKey(_ key: String) -> String {
        // The fixed text is specified in RFC 6455.
        let digest = Digest.sha1(Array("\(key)258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8))
        return String(decoding: Base64.encode(digest), as: UTF8.self)
    }

    private func greet(_ opening: Opening, _ namespace: LiveNamespace, _ exchange: HTTPExchange) {
        guard !hub.isDraining else { return exchange.close() }
        let transport = WebSocketSessionTransport(exchange)
        let connection = WebSocketConnection(
            WebSocketReceiver(parsers), maxMessageBytes: services.settings.maxMessageBytes, context.memory
        ) { opening.remoteAddress }
        connection.onTooLong = { [context] in
            context.longMessages.note(from: opening.remoteAddress, in: namespace.name)
        }
        let accept = {
            exchange.upgrade(headers: ["Upgrade": "websocket", "Sec-WebSocket-Accept": opening.accept]) { bytes in
                Self.received(bytes, connection, transport, exchange)
            }
        }
        if let polling = opening.pollingSession {
            return upgrades.open(of: polling, host: opening.host, exchange, connection, accept: accept)
        }
        accept()
        let session = hub.begin(
            namespace, transport, isLoopback: opening.isLoopback, opening.remoteAddress.description,
            isExtended: opening.isExtended)
        connection.address = { [weak session] in session?.memoryAddress ?? nil }
        connection.onMessage = { [weak session] message in session?.take(message) ?? false }
        connection.onSign = { [weak session] in session?.lastHeard = Clock.monotonicMilliseconds }
        connection.onText = { [weak session] in session?.lastSaid = Clock.monotonicMilliseconds }
        let id = session.id
        exchange.onClose = { [weak hub] in hub?.ended(id) }
        exchange.onDrain = { [weak session] in session?.drained() }
        session.answer(
            ServerMessage.hello(
                timestamp: Clock.unixMilliseconds, host: opening.host, session: session.id,
                isExtended: opening.isExtended))
        if let last = opening.lastSession { hub.endEarlier(last, before: session) }
    }

    private static func received(
        _ bytes: UnsafeRawBufferPointer, _ connection: WebSocketConnection, _ transport: WebSocketSessionTransport,
        _ exchange: HTTPExchange
    ) {
        // The answers to requests that arrived together are sent together.
        let isFirst = transport.beginCollecting()
        let isGood = connection.take(bytes)
        if isFirst { transport.sendCollected() }
        let output = connection.takeOutput()
        if !output.isEmpty { transport.send(frames: SharedBytes(output)) }
        if !isGood { exchange.close() }
    }
}
