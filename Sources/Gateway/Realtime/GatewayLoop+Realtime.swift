import Crypto
import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension GatewayLoop {
    // MARK: WebSocket

    /// `/.ws`: greets the client and begins its session (reference: rtdb-protocol 1).
    func openWebSocket(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        guard request.method == .get, request.isUpgrade, request.headerText("upgrade")?.lowercased() == "websocket",
            let key = request.headerText("sec-websocket-key"), (16...64).contains(key.utf8.count)
        else { throw RESTError(400, "This path is for WebSocket clients") }
        guard request.headerText("sec-websocket-version") == "13" else {
            throw RESTError(400, "The WebSocket version must be 13")
        }
        let parameters = RealtimeParameters(request.query)
        guard parameters.version == "5" else { throw RESTError(400, "The protocol version must be 5") }
        let name = try NamespaceName.find(request, parameters.namespace, gateway.settings)
        guard gateway.metrics.sessions.current < gateway.settings.maxSessions else {
            throw RESTError(503, "Too many sessions are open")
        }
        let opening = Opening(
            accept: Self.acceptKey(key), host: request.host.map { String(decoding: $0, as: UTF8.self) } ?? "localhost",
            lastSession: parameters.lastSession, pollingSession: parameters.pollingSession,
            isLoopback: isFromLoopback(request), remoteAddress: clientAddress(of: request))
        withNamespace(name, exchange) { loop, namespace, exchange in
            loop.greet(opening, namespace, exchange)
        }
    }

    /// What a handshake said.
    private struct Opening: Sendable {
        let accept: String
        let host: String
        let lastSession: String?
        let pollingSession: String?
        let isLoopback: Bool
        let remoteAddress: IPAddress
    }

    private static func acceptKey(_ key: String) -> String {
        // The fixed text is RFC 6455's.
        let digest = Digest.sha1(Array("\(key)258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8))
        return String(decoding: Base64.encode(digest), as: UTF8.self)
    }

    private func greet(_ opening: Opening, _ namespace: LiveNamespace, _ exchange: HTTPExchange) {
        guard !isDraining else { return exchange.close() }
        let transport = WebSocketTransport(exchange)
        let connection = WebSocketConnection(
            WebSocketReceiver(webSocketParsers), maxMessageBytes: gateway.settings.maxMessageBytes, gateway.memory
        ) { opening.remoteAddress }
        let accept = {
            exchange.upgrade(headers: ["Upgrade": "websocket", "Sec-WebSocket-Accept": opening.accept]) {
                [weak self] bytes in
                self?.received(bytes, connection, transport, exchange)
            }
        }
        if let polling = opening.pollingSession {
            return openUpgrade(of: polling, host: opening.host, exchange, connection, accept: accept)
        }
        accept()
        let session = begin(namespace, transport, isLoopback: opening.isLoopback, opening.remoteAddress.description)
        connection.address = { [weak session] in session?.memoryAddress ?? nil }
        connection.onMessage = { [weak session] message in session?.take(message) ?? false }
        connection.onSign = { [weak session] in session?.lastHeard = Clock.monotonicMilliseconds }
        connection.onText = { [weak session] in session?.lastSaid = Clock.monotonicMilliseconds }
        let id = session.id
        exchange.onClose = { [weak self] in self?.ended(id) }
        exchange.onDrain = { [weak session] in session?.drained() }
        session.answer(
            ServerMessage.hello(timestamp: Clock.unixMilliseconds, host: opening.host, session: session.id))
        if let last = opening.lastSession { endEarlier(last, before: session) }
    }

    private func received(
        _ bytes: UnsafeRawBufferPointer, _ connection: WebSocketConnection, _ transport: WebSocketTransport,
        _ exchange: HTTPExchange
    ) {
        // Answers to what came together go out together.
        let isFirst = transport.gather()
        let isGood = connection.take(bytes)
        if isFirst { transport.sendGathered() }
        let output = connection.takeOutput()
        if !output.isEmpty { transport.send(frames: SharedBytes(output)) }
        if !isGood { exchange.close() }
    }

    // MARK: Sessions

    func begin(
        _ namespace: LiveNamespace, _ transport: any RealtimeTransport, isLoopback: Bool, _ remoteAddress: String
    ) -> RealtimeSession {
        let session = RealtimeSession(
            gateway.settings.sessionLabel + RealtimeHub.makeToken(), self, namespace, transport,
            isLoopback: isLoopback, remoteAddress: remoteAddress)
        sessions[session.id] = session
        if let link { gateway.sessions.add(session.id, link) }
        gateway.metrics.sessions.add(1)
        gateway.metrics.sessionsOpened.add()
        return session
    }

    /// The session's connection is gone.
    func ended(_ id: String, _ completion: @escaping @Sendable () -> Void = {}) {
        guard let session = sessions.removeValue(forKey: id) else { return completion() }
        gateway.metrics.sessions.add(-1)
        session.ended(completion)
        // Last: who waits until there are no sessions finds their operations under way.
        gateway.sessions.remove(id)
    }

    /// A client that comes back names its last session: that one ends first, lest its end undo what the new one does
    /// (reference: rtdb-protocol 9).
    func endEarlier(_ last: String, before session: RealtimeSession) {
        guard last != session.id, let link else { return }
        session.hold()
        let id = session.id
        let isReleased = MutexBox(false)
        let release: @Sendable () -> Void = {
            let isFirst = isReleased.withLock { value -> Bool in
                defer { value = true }
                return !value
            }
            if isFirst { link.post { $0.sessions[id]?.release() } }
        }
        // The new session must not wait for ever for what the database does with the old one.
        _ = loop.schedule(afterMilliseconds: 5_000) { release() }
        if let home = gateway.sessions.link(of: last) {
            home.post { loop in
                loop.sessions[last]?.transport.close()
                loop.ended(last, release)
            }
        } else {
            gateway.engine.sessions.adopt(last, in: session.namespace, release)
        }
    }

    // MARK: Listens

    /// Adds a listen to its group, and tells from which snapshot on the group hears.
    func join(_ target: ListenTarget, _ session: RealtimeSession) -> (RealtimeListen, Snapshot)? {
        guard let link else { return nil }
        let key = ListenerKey(
            namespace: session.namespace.id, path: target.path, query: target.query, encoding: .realtime)
        let (group, snapshot) = gateway.listeners.join(key, session.namespace, link)
        nextListen += 1
        let listen = RealtimeListen(nextListen, target, group, session, seq: snapshot.seq)
        listens[ObjectIdentifier(group), default: [:]][listen.id] = listen
        gateway.metrics.listens.add(1)
        return (listen, snapshot)
    }

    /// Has a session do, in a turn of its own, what it does when its client has caught up.
    func drainSoon(_ session: RealtimeSession) {
        let id = session.id
        link?.post { $0.sessions[id]?.drained() }
    }

    func forget(_ listen: RealtimeListen) {
        let group = ObjectIdentifier(listen.group)
        guard listens[group]?.removeValue(forKey: listen.id) != nil else { return }
        if listens[group]?.isEmpty == true { listens[group] = nil }
        gateway.metrics.listens.add(-1)
        if let link { gateway.listeners.leave(listen.group, link) }
    }

    /// Hands encoded events to this loop's listens of a group. Before a client is sent anything its listen is judged anew:
    /// the same pass does both, as there may be thousands.
    func deliverRealtime(_ encoded: EncodedEvents, to group: ObjectIdentifier) {
        guard let last = encoded.events.last?.seq, let members = listens[group],
            var check = members.first.map({ ReaderCheck($0.value.group) })
        else { return }
        let bufferBytes = gateway.settings.streamBufferBytes
        var frames = TaggedFrames(encoded)
        for listen in members.values where mayGoOn(listen, &check) {
            listen.changed(&frames, last: last, bufferBytes: bufferBytes)
        }
        gateway.metrics.listenEvents.add(members.count * encoded.events.count)
    }

    func restartRealtime(group: ObjectIdentifier, from snapshot: Snapshot) {
        guard let members = listens[group] else { return }
        // Whoever is behind begins again anyway, once it has caught up.
        for listen in members.values where listen.state != .conflated { listen.session.sendAnew(listen, snapshot) }
    }

    func recheckListens(of group: ObjectIdentifier) {
        guard let members = listens[group], var check = members.first.map({ ReaderCheck($0.value.group) }) else {
            return
        }
        for listen in members.values { _ = mayGoOn(listen, &check) }
    }

    /// Judges a listen, and cancels one that is shut out.
    private func mayGoOn(_ listen: RealtimeListen, _ check: inout ReaderCheck) -> Bool {
        let session = listen.session
        if check.holds(listen.judgedBy), listen.judgedLogin == session.loginNumber { return true }
        guard check.mayRead(session.login.context) else {
            session.cancel(listen)
            return false
        }
        listen.judgedBy = check.rules
        listen.judgedLogin = session.loginNumber
        return true
    }

    // MARK: Writes

    /// Returns the number of the write; nil where the loop is ending.
    @discardableResult
    func submit(
        _ write: Write, for session: RealtimeSession, _ body: @escaping (RealtimeSession, WriteOutcome) -> Void
    ) -> UInt64? {
        guard let realtimeSink else { return nil }
        nextWrite += 1
        let token = nextWrite
        session.writes[token] = body
        realtimeWrites[token] = session.id
        session.namespace.submit(write, to: realtimeSink, token: token)
        return token
    }

    func realtimeWritten(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        // A client with several writes under way is sent their answers together.
        var gathering: [any RealtimeTransport] = []
        for (token, outcome) in outcomes {
            if let ending = endings.removeValue(forKey: token) { ending() }
            guard let id = realtimeWrites.removeValue(forKey: token), let session = sessions[id],
                let body = session.writes.removeValue(forKey: token)
            else { continue }
            if session.transport.gather() { gathering.append(session.transport) }
            body(session, outcome)
            session.writeAnswered()
        }
        for transport in gathering { transport.sendGathered() }
    }

    // MARK: Time

    /// Finds peers that have gone silently, logins that hold no more, and readers whom data elsewhere or the time has shut
    /// out, some in each turn.
    func sweepSessions() {
        guard !isSweeping else { return }
        isSweeping = true
        inSlices(Array(sessions.keys)) { loop, id in
            loop.sweep(id)
        } then: { loop in
            loop.inSlices(Array(loop.streams.keys)) { loop, group in
                loop.recheckReaders(of: group)
            } then: {
                $0.isSweeping = false
            }
        }
    }

    private func sweep(_ id: String) {
        guard let session = sessions[id] else { return }
        let now = Clock.monotonicMilliseconds
        session.recheckLogin(now: Clock.unixMilliseconds)
        session.transport.tick()
        if now - session.lastHeard > Int64(gateway.settings.sessionTimeoutMilliseconds)
            || now - session.lastSaid > Int64(gateway.settings.keepAliveTimeoutMilliseconds)
        {
            session.transport.abandon()
            return ended(session.id)
        }
        if now - session.lastHeard > Int64(gateway.settings.sessionTimeoutMilliseconds / 3) { session.transport.ping() }
        // Rules may look at data that a listen has nothing to do with: whoever lost a permission by a change elsewhere is
        // found here (and before anything is sent anyway).
        let seq = session.namespace.snapshot.seq
        guard seq != session.recheckedSeq else { return }
        session.recheckedSeq = seq
        session.recheckListens()
    }

    /// Forgets the listens of a session that has ended, some in each turn. They refer to it until then.
    func forgetLater(_ listens: [RealtimeListen], of session: RealtimeSession) {
        guard !listens.isEmpty else { return }
        let id = session.id
        ending[id] = (session, listens)
        forgetSome(of: id)
    }

    private func forgetSome(of id: String) {
        while let listen = ending[id]?.listens.popLast() {
            forget(listen)
            if loop.isSliceOver, let link { return link.post { $0.forgetSome(of: id) } }
        }
        ending[id] = nil
    }

    /// Closes all sessions once their writes are done; what they want done then is begun at once, however long clients
    /// take to let go of their connections.
    func closeSessions() {
        for session in sessions.values { session.close() }
    }
}

/// Brings the outcomes of realtime writes back to their loop.
final class RealtimeSink: WriteSink {
    private let link: LoopLink

    init(_ link: LoopLink) { self.link = link }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        link.post { $0.realtimeWritten(outcomes) }
    }
}
