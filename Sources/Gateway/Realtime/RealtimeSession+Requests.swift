import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// What a session's client has asked for and is not done yet.
enum WaitingRequest {
    /// A long message: it is read on a worker once its turn has come, so that until then it costs its bytes only.
    case unread([UInt8], MemoryShare)
    /// A worker reads it.
    case reading
    case read(ClientRequest, MemoryShare?)
    /// A large write that was refused in a trial.
    case refused(Int64, WriteName?, WriteOutcome, TransactionKey?)
}

extension RealtimeSession {
    /// Takes a whole message. False when the connection must be closed.
    func take(_ message: [UInt8]) -> Bool {
        guard !isEnded, !isClosing else { return true }
        guard message.count <= settings.heavyBodyBytes else { return takeLong(message) }
        do throws(MessageError) {
            return take(try ClientMessageParser.parse(message), byteCount: message.count)
        } catch {
            return refused(error)
        }
    }

    private func take(_ message: ClientMessage, byteCount: Int) -> Bool {
        switch message {
        case .ping: answer(ServerMessage.pong)
        case .control("n"): return endPolling()
        case .control: break
        case .request(let request):
            guard admits(request) else { return refusedInARow <= settings.limits.maxRefusedMessages }
            if !isHeldByTransaction { sendWaitingTransaction() }
            while !hasTaken(request, byteCount) {
                // There is no room for requests that wait, so the transaction before them does not wait either.
                guard isHeldByTransaction else { return false }
                sendWaitingTransaction()
            }
        }
        return true
    }

    /// Performs a request, or keeps it until those before it are done. False if there is no room for it.
    private func hasTaken(_ request: ClientRequest, _ byteCount: Int) -> Bool {
        if !isWaiting, !mustWait(request), !loop.isSliceOver {
            perform(request, byteCount)
            return true
        }
        guard let share = context.memory.take(byteCount + 256, for: memoryAddress), enqueue(.read(request, share))
        else { return false }
        performLater()
        return true
    }

    private func takeLong(_ message: [UInt8]) -> Bool {
        guard let share = context.memory.take(message.count, for: memoryAddress) else {
            context.logger.debug("no room for a realtime message", [("session", id)])
            return false
        }
        if !isHeldByTransaction { sendWaitingTransaction() }
        guard enqueue(.unread(message, share)) else { return false }
        performWaiting()
        return true
    }

    private func enqueue(_ request: WaitingRequest) -> Bool {
        guard waiting.count - nextWaiting < settings.maxQueuedRequests else { return false }
        waiting.append(request)
        return true
    }

    private func refused(_ error: MessageError) -> Bool {
        context.logger.debug("realtime message refused", [("session", id), ("reason", error.reason)])
        return false
    }

    /// Whose share of memory its requests take; administrators are not held to one.
    var memoryAddress: IPAddress? { login.context.isAdmin ? nil : address }

    private var isWaiting: Bool { nextWaiting < waiting.count }

    // MARK: Holding

    /// Later requests wait until as many releases.
    func hold() { holds += 1 }

    func release() {
        holds -= 1
        performWaiting()
    }

    /// Has a worker do something that takes too long for the loop; requests that come meanwhile wait.
    func onWorker<Result: Sendable>(
        _ work: @escaping @Sendable () -> Result,
        then completion: @escaping @Sendable (RealtimeSession, Result) -> Void
    ) {
        hold()
        submitToWorker {
            work()
        } then: { session, result in
            completion(session, result)
            session.release()
        }
    }

    private func submitToWorker<Result: Sendable>(
        _ work: @escaping @Sendable () -> Result,
        then completion: @escaping @Sendable (RealtimeSession, Result) -> Void
    ) {
        let isQueued = context.workers.submit { [home = host.home, id] in
            let result = work()
            home.post(to: id) { session in
                if !session.isEnded { completion(session, result) }
            }
        }
        if isQueued { return }
        // The workers have more than enough to do: a little later.
        _ = loop.schedule(afterMilliseconds: 50) { [weak self] in
            guard let self, !self.isEnded else { return }
            self.submitToWorker(work, then: completion)
        }
    }

    // MARK: Performing

    /// Whether a request can't be performed yet: requests are applied in the order of their arrival (reference:
    /// rtdb-protocol 3.6). What reads is judged and answered as of all writes before it. And no write is done before the
    /// operations that came before it are stored, or a dead gateway would leave a client present that had said how to leave.
    private func mustWait(_ request: ClientRequest) -> Bool {
        if holds > 0 { return true }
        if !writes.isEmpty, request.action.reads { return true }
        return saving.isSaving && request.action.writes
    }

    /// Goes on in the loop's next slice: whoever sends much at once must not keep the others waiting.
    private func performLater() {
        guard !isToPerform else { return }
        isToPerform = true
        host.home.post(to: id) { session in
            session.isToPerform = false
            session.performWaiting()
        }
    }

    func performWaiting() {
        while nextWaiting < waiting.count, !isClosing, !isEnded {
            if loop.isSliceOver { return performLater() }
            switch waiting[nextWaiting] {
            case .reading: return
            case .unread(let message, let share):
                // It is tried on a tree in which is what came before it.
                guard holds == 0, writes.isEmpty else { return }
                waiting[nextWaiting] = .reading
                return read(message, share)
            case .refused(let number, let name, let outcome, let place):
                nextWaiting += 1
                if let place { transacted(outcome, at: place) }
                refuse(number, place == nil ? name : nil) { $0.answer(number, outcome) }
            case .read(let request, let share):
                guard !mustWait(request) else { return }
                waiting[nextWaiting] = .reading
                nextWaiting += 1
                performed = share
                perform(request, share?.bytes ?? 0)
                performed = nil
            }
        }
        guard nextWaiting == waiting.count else { return }
        waiting.removeAll(keepingCapacity: nextWaiting < 64)
        nextWaiting = 0
    }

    /// Reads the message at the front of the queue. What the rules refuse whatever it holds is not parsed, and what they
    /// refuse in the end not queued.
    private func read(_ message: [UInt8], _ share: MemoryShare) {
        guard !login.context.isAdmin else { return read(message, share, on: nil) }
        namespace.withCurrentSnapshot { [home = host.home, id] result in
            home.post(to: id) { session in
                guard !session.isEnded else { return }
                session.read(message, share, on: (try? result.get()) ?? session.namespace.snapshot)
            }
        }
    }

    private func read(_ message: [UInt8], _ share: MemoryShare, on snapshot: Snapshot?) {
        let reading = RealtimeReading(
            login.context, snapshot, in: namespace, share, heavyRows: settings.heavyRows)
        submitToWorker {
            reading.run(message)
        } then: { session, result in
            if !session.hasRead(result, share) { session.transport.close() }
        }
    }

    /// False when the connection must be closed.
    private func hasRead(_ result: Result<RealtimeReading.Outcome, MessageError>, _ share: MemoryShare) -> Bool {
        guard nextWaiting < waiting.count, case .reading = waiting[nextWaiting] else { return true }
        switch result {
        case .failure(let error): return refused(error)
        case .success(.refused(let number, let name, let outcome, let place)):
            waiting[nextWaiting] = .refused(number, name, outcome, place)
        case .success(.message(.request(let request))):
            guard admits(request) else {
                nextWaiting += 1
                performWaiting()
                return refusedInARow <= settings.limits.maxRefusedMessages
            }
            waiting[nextWaiting] = .read(request, share)
        case .success(.message(let message)):
            nextWaiting += 1
            guard take(message, byteCount: 0) else { return false }
        }
        performWaiting()
        return true
    }

    private func perform(_ request: ClientRequest, _ byteCount: Int) {
        let number = request.number
        switch request.action {
        case .stats, .appCheck: answer(number, "ok", .none)
        case .listen(let target, let hash, let compound, let behind): listen(number, target, hash, compound, behind)
        case .unlisten(let target): unlisten(number, target)
        case .get(let path, let query): get(number, path, query)
        case .put(let path, let value, let hash, let byteCount):
            write(
                number, .set(path, value.node), hash: hash, operation: value.node.isNull ? .remove : .set,
                hasServerValue: value.hasServerValue, byteCount: byteCount, name: request.name, isLast: !isWaiting)
        case .merge(let path, let changes, let hasServerValue, let hash, let byteCount):
            write(
                number, .update(base: path, changes), hash: hash, operation: .update, hasServerValue: hasServerValue,
                byteCount: byteCount, name: request.name, isLast: !isWaiting)
        case .onDisconnectPut(let path, let value):
            changeOperations(number, [Change(path: path, value: value)], byteCount) { $0.put(path, value) }
        case .onDisconnectMerge(_, let changes): changeOperations(number, changes, byteCount) { $0.merge(changes) }
        case .onDisconnectCancel(let path): changeOperations(number, nil, 0) { $0.cancel(path) }
        case .authenticate(let login): authenticate(number, login)
        case .unauthenticate: unauthenticate(number)
        case .wait(let seq, let path): wait(number, seq, path)
        case .echo(let value): answer(number, "ok", .raw(value.text))
        case .denied:
            engine.metrics.deniedWrites.add()
            refuse(number, request.name) { $0.answer(number, "permission_denied", .text("Permission denied")) }
        case .refused(let reason): answer(number, "failure", .text(reason))
        }
    }
}
