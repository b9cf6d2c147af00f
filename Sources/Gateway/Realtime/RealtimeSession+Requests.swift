import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// A client's request that is not finished yet.
enum WaitingRequest {
    /// A long message. A worker parses it once its turn has come, so that until then it takes only its own bytes.
    case unread([UInt8], MemoryShare)
    /// A worker is parsing the message.
    case reading
    case read(ClientRequest, MemoryShare?)
    /// A large write that was refused in a trial.
    case refused(Int64, WriteName?, WriteOutcome, TransactionKey?)
}

extension RealtimeSession {
    /// Handles a whole message. Returns false if the connection must be closed.
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
                // The queue of requests is full, so the transaction that holds them must not wait any longer.
                guard isHeldByTransaction else { return false }
                sendWaitingTransaction()
            }
        }
        return true
    }

    /// Performs a request, or queues it until earlier ones are finished. Returns false if the queue or the memory
    /// budget is exhausted.
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
            context.logger.debug("no memory for a realtime message", [("session", id)])
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

    /// The address whose share of the memory budget the requests take; nil for administrators, which have no limit.
    var memoryAddress: IPAddress? { login.context.isAdmin ? nil : address }

    private var isWaiting: Bool { nextWaiting < waiting.count }

    // MARK: Holding

    /// Makes later requests wait. Each call needs one `release`.
    func hold() { holds += 1 }

    func release() {
        holds -= 1
        performWaiting()
    }

    /// Runs `work` on a worker, because it takes too long for the loop. Later requests wait.
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
        let isQueued = context.workers.submit { [sessionLoop = host.sessionLoop, id] in
            let result = work()
            sessionLoop.post(to: id) { session in
                if !session.isEnded { completion(session, result) }
            }
        }
        if isQueued { return }
        // The workers' queue is full: retries a little later.
        _ = loop.schedule(afterMilliseconds: 50) { [weak self] in
            guard let self, !self.isEnded else { return }
            self.submitToWorker(work, then: completion)
        }
    }

    // MARK: Performing

    /// Returns whether a request can't be performed yet: requests are applied in the order of their arrival (reference:
    /// rtdb-protocol 3.6). Reads are checked and answered after all earlier writes. No write is sent before the earlier
    /// onDisconnect operations are stored; otherwise, if the gateway died, the client would stay marked as present.
    private func mustWait(_ request: ClientRequest) -> Bool {
        if holds > 0 { return true }
        if !writes.isEmpty, request.action.reads { return true }
        return saving.isSaving && request.action.writes
    }

    /// Continues in the loop's next slice, so that a client with many requests does not delay others.
    private func performLater() {
        guard !isToPerform else { return }
        isToPerform = true
        host.sessionLoop.post(to: id) { session in
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
                // The trial needs a tree that includes all earlier writes.
                guard holds == 0, writes.isEmpty else { return }
                waiting[nextWaiting] = .reading
                return read(message, share)
            case .refused(let number, let name, let outcome, let key):
                nextWaiting += 1
                if let key { transacted(outcome, at: key) }
                refuse(number, key == nil ? name : nil) { $0.answer(number, outcome) }
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

    /// Parses the message at the front of the queue. If the rules refuse its write regardless of the values, it is not
    /// parsed; if the trial refuses the write, it is not queued.
    private func read(_ message: [UInt8], _ share: MemoryShare) {
        guard !login.context.isAdmin else { return read(message, share, on: nil) }
        namespace.withCurrentSnapshot { [sessionLoop = host.sessionLoop, id] result in
            sessionLoop.post(to: id) { session in
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

    /// Returns false if the connection must be closed.
    private func hasRead(_ result: Result<RealtimeReading.Outcome, MessageError>, _ share: MemoryShare) -> Bool {
        guard nextWaiting < waiting.count, case .reading = waiting[nextWaiting] else { return true }
        switch result {
        case .failure(let error): return refused(error)
        case .success(.refused(let number, let name, let outcome, let key)):
            waiting[nextWaiting] = .refused(number, name, outcome, key)
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
        case .listen(let target, let hash, let compound, let after): listen(number, target, hash, compound, after)
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
