import Tree
import Wire

extension ConnectionMachine {
    /// Handles an event of the transport. Events of a connection that has ended are ignored.
    public mutating func transport(_ event: TransportEvent, of number: ConnectionNumber, now: Int64) {
        if case .received(let text) = event { receivedBytes += Self.frameBytes(text.count) }
        guard connection?.number == number else { return }
        connection?.lastReceived = now
        connection?.pingedAt = nil
        switch event {
        case .opened: connection?.lastSent = now
        case .progress: break
        case .received(let text): received(text, now: now)
        case .closed(let closure): end(reason: Self.bounded(closure.description), closes: false, .later, now: now)
        }
    }

    /// Returns the size of an unmasked WebSocket frame with so many bytes of text.
    private static func frameBytes(_ count: Int) -> Int64 {
        Int64(count + (count < 126 ? 2 : count < 65_536 ? 4 : 10))
    }

    private mutating func received(_ text: [UInt8], now: Int64) {
        guard let result = connection?.assembler.take(text) else { return }
        switch result {
        case .nothing: break
        case .error(let reason): fail(reason, now: now)
        case .tooLong(let limit): fail("a message of more than \(limit) bytes", now: now)
        case .message(let bytes):
            do throws(MessageError) {
                try handle(try ServerMessageParser.parse(bytes), now: now)
            } catch {
                fail(error.reason, now: now)
            }
        }
    }

    private mutating func handle(_ message: ServerMessage, now: Int64) throws(MessageError) {
        if case .control(let control) = message { return try handle(control, now: now) }
        guard isConnected else { throw MessageError(reason: "data before the greeting") }
        switch message {
        case .control: break
        case .response(let response): try handle(response, now: now)
        case .push(let push): handle(push, now: now)
        }
    }

    // MARK: Control

    private mutating func handle(_ control: ServerControl, now: Int64) throws(MessageError) {
        switch control {
        case .hello(let hello):
            guard case .opening = phase else { throw MessageError(reason: "a second greeting") }
            greeted(hello, now: now)
        case .reset(let host): sendElsewhere(host, now: now)
        case .shutdown(let reason):
            isShutDown = settings.retriesAfterShutdown == nil
            effects.append(.report(.shutDown(reason: Self.bounded(reason))))
            let again = settings.retriesAfterShutdown.map { Again.after($0) } ?? .never
            end(reason: "the server shut the database down", closes: true, again, now: now)
        case .error(let text): tellSeldom(.serverError(Self.bounded(text, 1_000)))
        case .pong: break
        case .upgradeOffer, .endOfTransmission: note("the server sent a message of long polling")
        case .unknown(let type): note("the server sent a control message of the unknown type \(type)")
        }
    }

    private mutating func greeted(_ hello: ServerHello, now: Int64) {
        lastSession = hello.session.utf8.count <= 256 ? hello.session : nil
        connection?.greetedAt = now
        connection?.serverTime = hello.timestamp
        connection?.isExtended = hello.isExtended
        if hello.version != "5" { note("the server speaks version \(hello.version) of the protocol") }
        if settings.followsGreeting, let next = ServerAddress(hello.host, isSecure: settings.isSecure) {
            if settings.accepts(next.host) {
                server = next
            } else {
                note("the greeting names a host outside of the server's domain")
            }
        }
        phase = .signingIn(since: now)
        effects.append(.report(.connected(serverTime: hello.timestamp)))
        if let token = login.appCheckToken { send(.appCheck(token: token), as: .appCheck, now: now) }
        signIn(now: now)
    }

    /// Follows the server's request to connect to another host.
    private mutating func sendElsewhere(_ host: String, now: Int64) {
        guard let next = ServerAddress(host, isSecure: settings.isSecure) else {
            return fail("a redirect to the invalid host \(host)", now: now)
        }
        guard settings.accepts(next.host) else {
            return fail("a redirect to \(host), outside of the server's domain", now: now)
        }
        // A greeting alone does not end the sequence of redirects: a server that greets and redirects at once could
        // otherwise redirect the client forever.
        if let greetedAt = connection?.greetedAt, now - greetedAt >= settings.goodConnection { redirects = 0 }
        redirects += 1
        guard redirects <= Self.mostRedirects else {
            redirects = 0
            return end(reason: "the servers redirect the client in a circle", closes: true, .later, now: now)
        }
        server = next
        end(reason: "the server redirects the client to another host", closes: true, .atOnce, now: now)
    }

    private static var mostRedirects: Int { 5 }

    // MARK: Answers

    private mutating func handle(_ answer: ServerResponse, now: Int64) throws(MessageError) {
        guard let request = connection?.requests.removeValue(forKey: answer.number) else {
            return note("the server answered an unknown request")
        }
        connection?.owedSince = now
        connection?.ending[answer.number] = nil
        switch request {
        case .listen(let serial):
            if !resumptionAnswered(serial, answer, now: now) { listenAnswered(serial, answer) }
            sendWaits(now: now)
        case .wait(let id): waitAnswered(id, answer, now: now)
        case .queued(let serial, let byteCount):
            connection?.bytesInFlight -= byteCount
            connection?.requestsInFlight -= 1
            try queuedAnswered(serial, answer)
            sendQueued(now: now)
        case .login(let serial): loginAnswered(serial, answer, now: now)
        case .appCheck:
            if answer.status != .ok { note("the server refused the app check token: \(answer.status.rawValue)") }
        case .unimportant: break
        }
    }

    private mutating func listenAnswered(_ serial: UInt64, _ answer: ServerResponse) {
        // The listen has been stopped.
        guard let listen = listens[serial] else { return }
        if answer.status == .ok {
            listens.noteAnswered(serial)
            let lacksIndex = answer.warnsOfMissingIndex
            effects.append(
                .report(.listenCompleted(listen.spec, tag: listen.tag, lacksIndex: lacksIndex, mark: answer.mark)))
        } else {
            _ = listens.remove(serial)
            effects.append(.report(.listenRefused(listen.spec, tag: listen.tag, failure(answer))))
        }
    }

    private mutating func queuedAnswered(_ serial: UInt64, _ answer: ServerResponse) throws(MessageError) {
        guard let content = queue[serial] else { return }
        if case .get(let id, _) = content, answer.status == .ok {
            // Parsed while the get is still queued: an invalid value ends the connection, and the get is then reported
            // as lost.
            let value = try answer.value()
            _ = queue.remove(serial)
            effects.append(.report(.getAnswered(id, .value(value, seq: answer.mark?.seq))))
            return
        }
        _ = queue.remove(serial)
        if answer.status == .ok {
            report(content, .done, seq: answer.mark?.seq)
        } else {
            report(content, .refused(failure(answer)))
        }
    }

    func failure(_ answer: ServerResponse) -> RequestFailure {
        RequestFailure(
            status: RealtimeStatus(rawValue: Self.bounded(answer.status.rawValue, 64)),
            explanation: answer.explanation.map { Self.bounded($0, 1_000) })
    }

    // MARK: Pushes

    private mutating func handle(_ push: ServerPush, now: Int64) {
        switch push {
        case .change(let event, let tag, let mark):
            if let known = listenTag(tag, event.path) {
                effects.append(.report(.changed(event, tag: known.tag, mark: mark)))
            }
        case .ranges(let path, let ranges, let tag, let mark):
            if let known = listenTag(tag, path) {
                effects.append(.report(.ranges(path, ranges, tag: known.tag, mark: mark)))
            }
        case .listenRevoked(let path, let queries): listenRevoked(path, queries)
        case .authRevoked(let status, let explanation):
            let status = RealtimeStatus(rawValue: Self.bounded(status.rawValue, 64))
            loginFailed(RequestFailure(status: status, explanation: Self.bounded(explanation, 1_000)), now: now)
        case .appCheckRevoked: effects.append(.askForAppCheckToken)
        case .securityDebug(let text): effects.append(.report(.securityDebug(Self.bounded(text, 16_384))))
        case .unknown(let action): note("the server sent the unknown push \(action)")
        }
    }

    /// Returns nil for data without a listener. A stopped listen may still be sent data.
    /// It is older than the data of other listens, or than the hashes that they were sent with: a query would take it
    /// for a change, and it would remain if the server then reports that the listen's data is unchanged.
    private func listenTag(_ tag: Int64?, _ path: Path) -> (tag: ListenTag?, Void)? {
        guard let tag else { return isForUntagged(path) ? (nil, ()) : nil }
        let known = ListenTag(rawValue: tag)
        return listens.has(known) ? (known, ()) : nil
    }

    /// Whether data without a tag belongs to the present listen. The server executes requests in order: a listen that
    /// was ended before this one was sent receives nothing more once its end has been confirmed.
    private func isForUntagged(_ path: Path) -> Bool {
        guard let listen = listens.untagged(for: path), let number = listen.number else { return false }
        guard !listen.isAnswered, let ending = connection?.ending else { return true }
        return !ending.contains { $0.key < number && $0.value.contains(path) }
    }

    private mutating func listenRevoked(_ path: Path, _ queries: [RawJSON]?) {
        let revoked = queries.map { $0.compactMap { Query(object: $0) } } ?? [Query()]
        let serials = listens.serials(at: path) { query in revoked.contains { $0 == query } }
        if serials.isEmpty { note("the server revoked an unknown listen") }
        for serial in serials {
            guard let listen = listens.remove(serial) else { continue }
            let failure = RequestFailure(status: .permissionDenied, explanation: nil)
            effects.append(.report(.listenRefused(listen.spec, tag: listen.tag, failure)))
        }
    }

    /// Reports an irregularity of the server without consequences.
    private mutating func note(_ text: String) { tellSeldom(.note(Self.bounded(text))) }

    private mutating func tellSeldom(_ report: ConnectionReport) {
        guard let left = connection?.notesLeft, left > 0 else { return }
        connection?.notesLeft -= 1
        effects.append(.report(report))
    }
}

extension ChangeEvent {
    /// The path of the event.
    fileprivate var path: Path {
        switch self {
        case .put(let path, _), .patch(let path, _): path
        }
    }
}
