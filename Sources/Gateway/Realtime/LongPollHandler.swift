import Crypto
import Engine
import HTTPServer
import Runtime
import Wire

/// Serves `/.lp` for browsers that could not keep a WebSocket open (reference: rtdb-protocol 1.8). One for each loop.
final class LongPollHandler {
    private let services: LoopServices
    private let callers: CallerResolver
    private let namespaces: NamespaceWaits
    private let context: RealtimeContext
    private let hub: RealtimeHub

    init(
        _ services: LoopServices, _ callers: CallerResolver, _ namespaces: NamespaceWaits, _ context: RealtimeContext,
        _ hub: RealtimeHub
    ) {
        self.services = services
        self.callers = callers
        self.namespaces = namespaces
        self.context = context
        self.hub = hub
    }

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        guard request.method == .get else { throw RESTError(405, "The method must be GET") }
        let parameters = RealtimeParameters(request.query)
        if parameters["start"] != nil { return try start(request, parameters, exchange) }
        if parameters["dframe"] != nil { return try DisconnectFrame.send(parameters, exchange) }
        guard let id = parameters["id"], let password = parameters["pw"],
            let sessionLoop = context.directory.sessionLoop(of: id)
        else {
            // The session has ended: the client opens another one.
            return Self.close(exchange.reference)
        }
        // Browsers never close only their sending side, so the answer to such a poll would be lost.
        exchange.endsWithInput = true
        let poll = Poll(
            password: password, parameters: parameters, isDisconnect: parameters["disconn"] != nil,
            exchange: exchange.reference)
        sessionLoop.post(to: id) {
            Self.close(poll.exchange)
        } _: { session in
            Self.take(poll, session)
        }
    }

    private static func close(_ exchange: ExchangeReference) {
        LongPollTransport.answer(exchange, Array("pLPCommand('close')".utf8))
    }

    // MARK: Opening a session

    private func start(
        _ request: HTTPRequest, _ parameters: RealtimeParameters, _ exchange: HTTPExchange
    ) throws(RESTError) {
        guard parameters.version == "5" else { throw RESTError(400, "The protocol version must be 5") }
        guard let callback = parameters["cb"], Self.isCallback(callback) else {
            throw RESTError(400, "cb must be the callback's number")
        }
        let name = try NamespaceName.find(request, parameters.namespace, services.settings)
        guard hub.hasRoom else { throw RESTError(503, "Too many sessions are open") }
        let host = request.host.map { String(decoding: $0, as: UTF8.self) } ?? "localhost"
        let last = parameters.lastSession
        let isLoopback = callers.isFromLoopback(request)
        let address = callers.clientAddress(of: request).description
        namespaces.whenLoaded(name, exchange) { [self] namespace in
            let transport = LongPollTransport(
                password: SessionDirectory.makeToken(), maxBytes: services.settings.streamBufferBytes * 16)
            transport.segments = LongPollSegments(maxBytes: services.settings.maxMessageBytes)
            let session = hub.begin(namespace, transport, isLoopback: isLoopback, address)
            connect(transport, to: session)
            let hello = ServerMessage.hello(timestamp: Clock.unixMilliseconds, host: host, session: session.id)
            LongPollTransport.answer(
                exchange.reference,
                LongPollTransport.opening(
                    callback: callback, session: session.id, password: transport.password, hello: hello))
            if let last { hub.endEarlier(last, before: session) }
        }
    }

    private static func isCallback(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
            }
    }

    private func connect(_ transport: LongPollTransport, to session: RealtimeSession) {
        let sessionLoop = hub.sessionLoop
        let id = session.id
        // The handler is posted, so that it does not run inside the session's own work.
        transport.onEnd = { sessionLoop.post(to: id) { $0.host.ended(id) } }
        transport.onDrain = { [weak session] in session?.drained() }
        transport.onLoss = { response in sessionLoop.post(to: id) { $0.pollingTransport?.keep(response) } }
    }

    // MARK: The session's loop

    /// A request of a polling session.
    private struct Poll: Sendable {
        let password: String
        let parameters: RealtimeParameters
        let isDisconnect: Bool
        let exchange: ExchangeReference
    }

    private static func take(_ poll: Poll, _ session: RealtimeSession) {
        guard let transport = session.pollingTransport,
            Digest.isEqualInConstantTime(Array(poll.password.utf8), Array(transport.password.utf8))
        else { return close(poll.exchange) }
        session.lastHeard = Clock.monotonicMilliseconds
        session.lastSaid = session.lastHeard
        let isFormer = session.formerTransport === transport
        if poll.isDisconnect {
            if isFormer {
                session.formerTransport = nil
                transport.onFinish?()
            }
            transport.close()
            return LongPollTransport.answer(poll.exchange, [])
        }
        transport.poll(poll.exchange)
        if isFormer { return }
        guard let messages = transport.segments?.take(poll.parameters),
            hasRoom(for: transport.segments?.waitingBytes ?? 0, of: session)
        else {
            if transport.segments?.isTooLong == true {
                session.context.longMessages.note(from: session.address, in: session.namespace.name)
            }
            return session.transport.close()
        }
        for message in messages where !session.take(message) { return session.transport.close() }
    }

    /// Returns whether the memory budget suffices for the incomplete messages of a session.
    private static func hasRoom(for bytes: Int, of session: RealtimeSession) -> Bool {
        guard bytes > 0 else {
            session.pollingShare = nil
            return true
        }
        if let share = session.pollingShare { return share.resize(to: bytes) }
        session.pollingShare = session.context.memory.take(bytes, for: session.memoryAddress)
        return session.pollingShare != nil
    }
}

/// A page that ends a polling session when it unloads. Chromium does not wait for an answer while a page unloads, and
/// other browsers do not support requests that outlive their page.
enum DisconnectFrame {
    static func send(_ parameters: RealtimeParameters, _ exchange: HTTPExchange) throws(RESTError) {
        guard let page = page(id: parameters["id"], password: parameters["pw"]) else {
            throw RESTError(400, "id and pw are missing")
        }
        exchange.respond(
            status: 200, headers: ["Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache"],
            body: Array(page.utf8))
    }

    /// Returns nil if the id or the password is invalid, because both are inserted into a script.
    static func page(id: String?, password: String?) -> String? {
        guard let id, let password, isToken(id), isToken(password) else { return nil }
        return """
            <!DOCTYPE html><html><head><script>
            function end(){var u="/.lp?disconn=t&id=\(id)&pw=\(password)";
            if(window.Request&&"keepalive" in Request.prototype){fetch(u,{keepalive:true});}
            else{var r=new XMLHttpRequest();r.open("GET",u,false);r.send();}}
            window.onpagehide=end;
            </script></head><body></body></html>
            """
    }

    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) }
    }
}
