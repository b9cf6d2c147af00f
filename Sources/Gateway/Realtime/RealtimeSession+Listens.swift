import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension RealtimeSession {
    func listen(
        _ number: Int64, _ target: ListenTarget, _ hash: String, _ compound: CompoundHash?, _ after: String?
    ) {
        let snapshot = namespace.snapshot
        guard mayRead(target.path, target.query, snapshot) else {
            return answer(number, "permission_denied", .text("Permission denied"))
        }
        guard listens[target] != nil || listens.count < settings.maxListens else {
            return answer(number, "too_big", .text("Too many listens on one connection"))
        }
        // The client listens to the same path and query with another tag: the new listen replaces the old one.
        if let old = listens[target] { forget(old) }
        let (listen, joined) = host.join(target, self)
        listens[target] = listen
        if isExtended, let after { return resume(number, listen, joined, after: after) }
        open(listen, at: joined, InitialValue(listen.group, joined, target, hash, compound)) { session, opening in
            switch opening {
            case .sent: session.answerListen(number, target, joined)
            case .tooLong: session.answer(number, "too_big", .text(Self.tooMuchData))
            case .gone: session.answer(number, "permission_denied", .text("Permission denied"))
            }
        }
    }

    /// Answers a listen after its value at a snapshot, and later changes, have been sent.
    func answerListen(_ number: Int64, _ target: ListenTarget, _ joined: Snapshot) {
        let isIndexed = target.query.map { joined.rules.set.isIndexed($0.index, at: target.path) } ?? true
        var mark: LogMark?
        // Later changes carry their own marks.
        if isExtended, let listen = listens[target], listen.seq == joined.seq { mark = listen.group.mark(joined) }
        answer(number, "ok", isIndexed || !joined.rules.enforcesIndexes ? .emptyObject : .noIndex, at: mark)
    }

    static let tooMuchData =
        "Data requested exceeds the maximum size that can be accessed with a single request."

    enum Opening {
        case sent
        /// The value exceeds the length that clients accept.
        case tooLong
        /// The listen has ended meanwhile because of rules, data or the login.
        case gone
    }

    /// Sends a listen its value, encoded here or, if that takes long, on a worker, and calls `completion` with the
    /// result. Later requests wait for the worker.
    private func open(
        _ listen: RealtimeListen, at snapshot: Snapshot, _ value: InitialValue,
        _ completion: @escaping @Sendable (RealtimeSession, Opening) -> Void
    ) {
        guard value.isHeavy(settings) else {
            completion(self, send(value.message(), to: listen, at: snapshot.seq))
            return settled()
        }
        listen.open()
        let listenID = listen.id
        let group = listen.group
        onWorker {
            value.message()
        } then: { session, message in
            guard let listen = session.host.listen(listenID, in: group) else {
                completion(session, .gone)
                return session.settled()
            }
            completion(session, session.send(message, to: listen, at: snapshot.seq))
            session.settled()
        }
    }

    /// Sends the held answers to writes once all listens have their values.
    func settled() {
        if unsettledListens == 0 { sendHeldAnswers() }
    }

    func send(_ message: [UInt8]?, to listen: RealtimeListen, at seq: Int64) -> Opening {
        guard message.map({ transport.send($0) }) ?? true else {
            forget(listen)
            return .tooLong
        }
        listen.opened(at: seq, bufferBytes: settings.streamBufferBytes)
        // The missed changes follow as soon as the client has read this message.
        if listen.state == .conflated, transport.queuedBytes == 0 { drainSoon() }
        return .sent
    }

    func forget(_ listen: RealtimeListen) {
        listens[listen.target] = nil
        listen.state = .live
        host.forget(listen)
    }

    func unlisten(_ number: Int64, _ target: ListenTarget) {
        if let listen = listens[target] { forget(listen) }
        answer(number, "ok", .none)
    }

    func get(_ number: Int64, _ path: Path, _ query: Query?) {
        let snapshot = namespace.snapshot
        guard mayRead(path, query, snapshot) else {
            return answer(number, "permission_denied", .text("Permission denied"))
        }
        if let query, snapshot.rules.enforcesIndexes, !snapshot.rules.set.isIndexed(query.index, at: path) {
            return answer(number, "failure", .text(RESTError.missingIndex(query.index, at: path).message))
        }
        let node = snapshot.root[path]
        let selection = Selection(query, at: path, namespace, snapshot)
        let mark = isExtended ? LogMark(seq: snapshot.seq) : nil
        let make: @Sendable () -> [UInt8] = {
            ServerMessage.answer(number, "ok", .value(selection.select(from: node)), mark)
        }
        guard node.rowCount > settings.heavyRows else { return got(number, make()) }
        onWorker(make) { session, message in session.got(number, message) }
    }

    private func got(_ number: Int64, _ message: [UInt8]) {
        if !transport.send(message) { answer(number, "too_big", .text(Self.tooMuchData)) }
        transport.separate()
    }

    func mayRead(_ path: Path, _ query: Query?, _ snapshot: Snapshot) -> Bool {
        snapshot.rules.set.mayRead(
            path, query: query, root: snapshot.root, auth: login.context, now: Clock.unixMilliseconds
        ).isAllowed
    }

    func cancel(_ listen: RealtimeListen) {
        forget(listen)
        answer(ServerMessage.cancel(listen.target.path, query: listen.target.queryText))
    }

    // MARK: Checking listens

    /// Ends the listens that rules, data or the login do not permit any more (reference: rtdb-protocol 3.5): some now,
    /// and the others in later slices of the loop's time. Each listen is checked anyway before it sends an event.
    ///
    /// - Parameter holdsRequests: whether later requests wait until all listens are checked.
    func recheckListens(holdsRequests: Bool = false) {
        guard !login.context.readsEverything else {
            listensToCheck.removeAll()
            return
        }
        let isInFlight = !listensToCheck.isEmpty
        listensToCheck = Array(listens.keys)
        if holdsRequests, listensToCheck.count > Self.checksInASlice, !isHeldForChecks {
            isHeldForChecks = true
            hold()
        }
        if !isInFlight { checkSomeListens() }
    }

    private static let checksInASlice = 500

    private func checkSomeListens() {
        let snapshot = namespace.snapshot
        for target in listensToCheck.suffix(Self.checksInASlice) {
            guard let listen = listens[target], !mayRead(target.path, target.query, snapshot) else { continue }
            cancel(listen)
        }
        listensToCheck.removeLast(min(Self.checksInASlice, listensToCheck.count))
        guard listensToCheck.isEmpty || isEnded else {
            return host.sessionLoop.post(to: id) { $0.checkSomeListens() }
        }
        listensToCheck.removeAll()
        guard isHeldForChecks else { return }
        isHeldForChecks = false
        release()
    }

    // MARK: Changes

    /// Handles that the client has caught up: sends the values of conflated listens, and then the held answers to
    /// writes.
    func drained() {
        guard !isEnded else { return }
        if unsettledListens > 0 {
            for listen in listens.values where listen.state == .conflated { resend(listen, namespace.snapshot) }
        }
        settled()
    }

    /// Calls `drained` in a later slice of the loop's time.
    private func drainSoon() { host.sessionLoop.post(to: id) { $0.drained() } }

    /// Restarts a listen from a snapshot.
    func resend(_ listen: RealtimeListen, _ snapshot: Snapshot) {
        guard listen.state != .opening else { return listen.missed() }
        let target = listen.target
        open(listen, at: snapshot, InitialValue(listen.group, snapshot, target)) { session, opening in
            if case .tooLong = opening {
                session.answer(ServerMessage.cancel(target.path, query: target.queryText))
            }
        }
    }
}
