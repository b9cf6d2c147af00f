import Crypto
import Engine
import HTTPServer
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// `/.lp`: browsers that could not keep a WebSocket open poll here (reference: rtdb-protocol 1.8).
    func longPoll(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        guard request.method == .get else { throw RESTError(405, "The method must be GET") }
        let parameters = RealtimeParameters(request.query)
        if parameters["start"] != nil { return try startPolling(request, parameters, exchange) }
        if parameters["dframe"] != nil { return try disconnectFrame(parameters, exchange) }
        guard let id = parameters["id"], let password = parameters["pw"], let home = gateway.sessions.link(of: id)
        else {
            // The session is over: the client opens another.
            return LongPollTransport.answer(exchange.reference, Array("pLPCommand('close')".utf8))
        }
        // Browsers don't close their side only: what such a poll is answered would be lost.
        exchange.endsWithInput = true
        let reference = exchange.reference
        let isDisconnect = parameters["disconn"] != nil
        home.post { loop in
            loop.polled(id, password, parameters, isDisconnect: isDisconnect, reference)
        }
    }

    private func startPolling(
        _ request: HTTPRequest, _ parameters: RealtimeParameters, _ exchange: HTTPExchange
    ) throws(RESTError) {
        guard parameters.version == "5" else { throw RESTError(400, "The protocol version must be 5") }
        guard let callback = parameters["cb"], !callback.isEmpty, callback.utf8.count <= 64,
            callback.utf8.allSatisfy({
                (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
            })
        else { throw RESTError(400, "cb must be the callback's number") }
        let name = try NamespaceName.find(request, parameters.namespace, gateway.settings)
        guard gateway.metrics.sessions.current < gateway.settings.maxSessions else {
            throw RESTError(503, "Too many sessions are open")
        }
        let host = request.host.map { String(decoding: $0, as: UTF8.self) } ?? "localhost"
        let last = parameters.lastSession
        let isLoopback = isFromLoopback(request)
        let address = clientAddress(of: request).description
        withNamespace(name, exchange) { loop, namespace, exchange in
            let transport = LongPollTransport(
                password: SessionDirectory.makeToken(), maxBytes: loop.gateway.settings.streamBufferBytes * 16)
            let session = loop.begin(namespace, transport, isLoopback: isLoopback, address)
            let id = session.id
            loop.polling[id] = LongPollSegments(maxBytes: loop.gateway.settings.maxMessageBytes)
            transport.onEnd = { [weak loop] in
                // Not from inside a session's own work.
                loop?.link?.post { loop in
                    loop.polling[id] = nil
                    loop.ended(id)
                }
            }
            transport.onDrain = { [weak session] in session?.drained() }
            if let home = loop.link {
                transport.onLoss = { response in
                    home.post { $0.sessions[id]?.pollingTransport?.keep(response) }
                }
            }
            let hello = ServerMessage.hello(timestamp: Clock.unixMilliseconds, host: host, session: id)
            LongPollTransport.answer(
                exchange.reference,
                LongPollTransport.opening(
                    callback: callback, session: id, password: transport.password, hello: hello))
            if let last { loop.endEarlier(last, before: session) }
        }
    }

    /// A request of a polling session, on the session's own loop.
    private func polled(
        _ id: String, _ password: String, _ parameters: RealtimeParameters, isDisconnect: Bool,
        _ exchange: ExchangeReference
    ) {
        guard let session = sessions[id], let transport = session.pollingTransport,
            Digest.isEqualInConstantTime(Array(password.utf8), Array(transport.password.utf8))
        else { return LongPollTransport.answer(exchange, Array("pLPCommand('close')".utf8)) }
        session.lastHeard = Clock.monotonicMilliseconds
        session.lastSaid = session.lastHeard
        let isFormer = session.formerTransport === transport
        if isDisconnect {
            if isFormer {
                session.formerTransport = nil
                transport.onFinish?()
            }
            transport.close()
            return LongPollTransport.answer(exchange, [])
        }
        transport.poll(exchange)
        if isFormer { return }
        guard let messages = polling[id]?.take(parameters), hasRoom(for: session) else {
            return session.transport.close()
        }
        for message in messages where !session.take(message) { return session.transport.close() }
    }

    /// Whether there is memory for the pieces that a session waits to be completed.
    private func hasRoom(for session: RealtimeSession) -> Bool {
        let bytes = polling[session.id]?.waitingBytes ?? 0
        guard bytes > 0 else {
            session.pollingShare = nil
            return true
        }
        if let share = session.pollingShare { return share.resize(to: bytes) }
        session.pollingShare = gateway.memory.take(bytes, for: session.memoryAddress)
        return session.pollingShare != nil
    }

    /// A page whose unloading ends the session. Chromium refuses to wait for an answer while a page goes away, and others
    /// don't know requests that outlive their page.
    private func disconnectFrame(_ parameters: RealtimeParameters, _ exchange: HTTPExchange) throws(RESTError) {
        let isPlain = { (text: String?) in
            text.map {
                !$0.isEmpty
                    && $0.utf8.allSatisfy { byte in (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) }
            } ?? false
        }
        guard isPlain(parameters["id"]), isPlain(parameters["pw"]) else {
            throw RESTError(400, "id and pw are missing")
        }
        let page = """
            <!DOCTYPE html><html><head><script>
            function end(){var u="/.lp?disconn=t&id=\(parameters["id"] ?? "")&pw=\(parameters["pw"] ?? "")";
            if(window.Request&&"keepalive" in Request.prototype){fetch(u,{keepalive:true});}
            else{var r=new XMLHttpRequest();r.open("GET",u,false);r.send();}}
            window.onpagehide=end;
            </script></head><body></body></html>
            """
        exchange.respond(
            status: 200, headers: ["Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache"],
            body: Array(page.utf8))
    }
}
