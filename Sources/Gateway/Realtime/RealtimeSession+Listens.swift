import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension RealtimeSession {
    func listen(_ number: Int64, _ target: ListenTarget, _ hash: String, _ compound: CompoundHash?) {
        let snapshot = namespace.snapshot
        guard mayRead(target.path, target.query, snapshot) else {
            return answer(number, "permission_denied", .text("Permission denied"))
        }
        guard listens[target] != nil || listens.count < settings.maxListens else {
            return answer(number, "too_big", .text("Too many listens on one connection"))
        }
        // The same place and query again, with another tag: the new one counts.
        if let old = listens.removeValue(forKey: target) { loop.forget(old) }
        guard let (listen, joined) = loop.join(target, self) else { return }
        listens[target] = listen
        let value = listen.group.value(in: joined)
        if !sendValue(value, hash, compound, of: listen) {
            listens[target] = nil
            loop.forget(listen)
            return answer(
                number, "too_big",
                .text("Data requested exceeds the maximum size that can be accessed with a single request."))
        }
        let isIndexed = target.query.map { joined.rules.set.isIndexed($0.index, at: target.path) } ?? true
        answer(number, "ok", isIndexed || !joined.rules.enforcesIndexes ? .emptyObject : .noIndex)
    }

    /// Sends what the client does not have yet: nothing where its hash is right, parts where that is said, else all.
    private func sendValue(_ value: Node, _ hash: String, _ compound: CompoundHash?, of listen: RealtimeListen) -> Bool
    {
        if value.isNull ? hash.isEmpty : (!hash.isEmpty && hash == value.hash) { return true }
        let push: [UInt8]
        if let compound {
            push = ServerMessage.rangeMerge(RangeMerge.differences(value, compound), listener: listen.target.path)
        } else {
            push = ServerMessage.push(
                .put(.root, value), listener: listen.target.path, isTagged: listen.target.query != nil)
        }
        return transport.send(ServerMessage.finish(push, tag: listen.target.tag))
    }

    func unlisten(_ number: Int64, _ target: ListenTarget) {
        if let listen = listens.removeValue(forKey: target) { loop.forget(listen) }
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
        let value = Selection(query, at: path, namespace, snapshot).select(from: node)
        if !transport.send(ServerMessage.answer(number, "ok", .value(value))) {
            answer(
                number, "too_big",
                .text("Data requested exceeds the maximum size that can be accessed with a single request."))
        }
        transport.separate()
    }

    func mayRead(_ path: Path, _ query: Query?, _ snapshot: Snapshot) -> Bool {
        snapshot.rules.set.mayRead(
            path, query: query, root: snapshot.root, auth: login.context, now: Clock.unixMilliseconds
        ).isAllowed
    }

    /// Ends the listens that rules, data or the login don't allow any more (reference: rtdb-protocol 3.5).
    func recheckListens() {
        guard !login.context.isAdmin else { return }
        let snapshot = namespace.snapshot
        for listen in listens.values where !mayRead(listen.target.path, listen.target.query, snapshot) {
            cancel(listen)
        }
    }

    func cancel(_ listen: RealtimeListen) {
        listens[listen.target] = nil
        loop.forget(listen)
        answer(ServerMessage.cancel(listen.target.path, query: listen.target.queryText))
    }

    // MARK: Changes

    /// The client has caught up: conflated listens are sent their values, and then writes their answers.
    func drained() {
        guard !isEnded else { return }
        for listen in listens.values where listen.state == .conflated { sendAnew(listen, namespace.snapshot) }
        sendHeldAnswers()
    }

    func sendAnew(_ listen: RealtimeListen, _ snapshot: Snapshot) {
        let push = listen.group.initialEvent(snapshot)
        listen.state = .live
        listen.seq = max(listen.seq, snapshot.seq)
        if !transport.send(ServerMessage.finish(push.bytes, tag: listen.target.tag)) { cancel(listen) }
    }
}
