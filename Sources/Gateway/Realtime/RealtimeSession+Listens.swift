import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension RealtimeSession {
    func listen(
        _ number: Int64, _ target: ListenTarget, _ hash: String, _ compound: CompoundHash?, _ behind: String?
    ) {
        let snapshot = namespace.snapshot
        guard mayRead(target.path, target.query, snapshot) else {
            return answer(number, "permission_denied", .text("Permission denied"))
        }
        guard listens[target] != nil || listens.count < settings.maxListens else {
            return answer(number, "too_big", .text("Too many listens on one connection"))
        }
        // The same place and query again, with another tag: the new one counts.
        if let old = listens[target] { forget(old) }
        let (listen, joined) = host.join(target, self)
        listens[target] = listen
        if isExtended, let behind { return resume(number, listen, joined, behind: behind) }
        open(listen, at: joined, FirstValue(listen.group, joined, target, hash, compound)) { session, opening in
            switch opening {
            case .sent: session.answerListen(number, target, joined)
            case .tooLong: session.answer(number, "too_big", .text(Self.tooMuchData))
            case .gone: session.answer(number, "permission_denied", .text("Permission denied"))
            }
        }
    }

    /// The listen has been sent what was there as of a snapshot, and what has happened meanwhile.
    func answerListen(_ number: Int64, _ target: ListenTarget, _ joined: Snapshot) {
        let isIndexed = target.query.map { joined.rules.set.isIndexed($0.index, at: target.path) } ?? true
        var mark: LogMark?
        // What has happened meanwhile has brought its own marks.
        if isExtended, let listen = listens[target], listen.seq == joined.seq { mark = listen.group.mark(joined) }
        answer(number, "ok", isIndexed || !joined.rules.enforcesIndexes ? .emptyObject : .noIndex, at: mark)
    }

    static let tooMuchData =
        "Data requested exceeds the maximum size that can be accessed with a single request."

    enum Opening {
        case sent
        /// The value is longer than clients can take.
        case tooLong
        /// Rules, data or the login have ended the listen meanwhile.
        case gone
    }

    /// Sends a listen its value, made here or, where that takes long, on a worker; then `completion` with what came of it.
    /// Requests that come meanwhile wait.
    private func open(
        _ listen: RealtimeListen, at snapshot: Snapshot, _ value: FirstValue,
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

    /// Once all listens have their values, the writes' answers go out that have waited for them.
    func settled() {
        if unsettledListens == 0 { sendHeldAnswers() }
    }

    func send(_ message: [UInt8]?, to listen: RealtimeListen, at seq: Int64) -> Opening {
        guard message.map({ transport.send($0) }) ?? true else {
            forget(listen)
            return .tooLong
        }
        listen.opened(at: seq, bufferBytes: settings.streamBufferBytes)
        // What it has missed follows as soon as the client has taken this.
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

    // MARK: Judging again

    /// Ends the listens that rules, data or the login don't allow any more (reference: rtdb-protocol 3.5): some now, and
    /// the others in later slices of the loop's time. Before a listen is sent anything it is judged anyway.
    ///
    /// - Parameter holdsRequests: whether what comes behind waits until all are judged.
    func recheckListens(holdsRequests: Bool = false) {
        guard !login.context.isAdmin else {
            listensToCheck.removeAll()
            return
        }
        let isUnderWay = !listensToCheck.isEmpty
        listensToCheck = Array(listens.keys)
        if holdsRequests, listensToCheck.count > Self.checksInASlice, !isHeldForChecks {
            isHeldForChecks = true
            hold()
        }
        if !isUnderWay { checkSomeListens() }
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
            return host.home.post(to: id) { $0.checkSomeListens() }
        }
        listensToCheck.removeAll()
        guard isHeldForChecks else { return }
        isHeldForChecks = false
        release()
    }

    // MARK: Changes

    /// The client has caught up: conflated listens are sent their values, and then writes their answers.
    func drained() {
        guard !isEnded else { return }
        if unsettledListens > 0 {
            for listen in listens.values where listen.state == .conflated { sendAnew(listen, namespace.snapshot) }
        }
        settled()
    }

    /// Does the same in a slice of its own.
    private func drainSoon() { host.home.post(to: id) { $0.drained() } }

    /// Begins a listen again from a snapshot.
    func sendAnew(_ listen: RealtimeListen, _ snapshot: Snapshot) {
        guard listen.state != .opening else { return listen.missed() }
        let target = listen.target
        open(listen, at: snapshot, FirstValue(listen.group, snapshot, target)) { session, opening in
            if case .tooLong = opening {
                session.answer(ServerMessage.cancel(target.path, query: target.queryText))
            }
        }
    }
}
