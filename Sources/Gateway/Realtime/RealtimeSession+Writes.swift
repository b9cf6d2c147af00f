import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension RealtimeSession {
    func write(
        _ number: Int64, _ action: Write.Action, hash: String?, operation: Tree.Operation, hasServerValue: Bool,
        byteCount: Int, isLast: Bool
    ) {
        guard writes.count < settings.maxWaitingRequests else {
            return answer(number, "unavailable", .text("Too many writes are waiting."))
        }
        // Who is going to be refused must neither use up what others may write nor have them wait.
        let mayBeGiven = mayBeGiven(action)
        if mayBeGiven, loop.gateway.limiter.write(byteCount, to: namespace.name) != nil {
            return answerTooMany(number)
        }
        loop.gateway.metrics.writes.add()
        let write = Write(
            action, operation: hash == nil ? operation : .transaction, expectedHash: hash,
            hasServerValue: hasServerValue, byteCount: byteCount + 64, auth: login.context,
            origin: login.origin(via: .ws, address: remoteAddress))
        if hash != nil, mayBeGiven { return transact(number, write, mayWait: isLast) }
        let share = performed
        loop.submit(write, for: self) { session, outcome in
            withExtendedLifetime(share) { session.answer(number, outcome) }
        }
    }

    /// Whether the rules may let a write in as the tree is now. Those before it may make it otherwise.
    private func mayBeGiven(_ action: Write.Action) -> Bool {
        let snapshot = namespace.snapshot
        let permission = WritePermission(snapshot.rules.set, login.context, now: Clock.unixMilliseconds)
        return switch action {
        case .set(let path, _): permission.mayBeGiven(at: path, root: snapshot.root)
        case .update(_, let changes): permission.mayBeGiven(to: changes, root: snapshot.root)
        case .rules, .disconnect: false
        }
    }

    func answer(_ number: Int64, _ outcome: WriteOutcome) {
        switch outcome {
        case .committed: answerWrite(number, "ok", .none)
        case .preconditionFailed: answerWrite(number, "datastale", .text("Transaction hash does not match"))
        case .denied: answerWrite(number, "permission_denied", .text("Permission denied"))
        case .tooLarge: answerWrite(number, "too_big", .text(WriteJob.tooBig))
        case .refused(let reason): answerWrite(number, "failure", .text(reason))
        case .failed(let error):
            switch error {
            case .unavailable, .overloaded, .stopping, .unknownNamespace:
                answerWrite(number, "unavailable", .text("The service is unavailable. Try again later."))
            case .outcomeUnknown: answerWrite(number, "unavailable", .text(error.description))
            case .corrupt: answerWrite(number, "failure", .text("Internal server error"))
            }
        }
    }

    // MARK: onDisconnect

    /// Changes what is to be done at the end: checked against the rules now (and again then), stored, answered.
    ///
    /// - Parameter changes: what the rules judge; nil for a cancel, which nobody may be denied.
    func order(
        _ number: Int64, _ changes: [Change]?, _ byteCount: Int,
        _ change: @escaping @Sendable (inout DisconnectQueue) -> Void
    ) {
        let share = orderShare ?? loop.gateway.memory.take(0, for: memoryAddress)
        orderShare = share
        guard (share?.bytes ?? 0) + byteCount <= settings.maxMessageBytes, share?.grow(by: byteCount) ?? false else {
            return answer(number, "too_big", .text("The onDisconnect operations are too large"))
        }
        guard let changes, !login.context.isAdmin else { return adopt(number, change) }
        let trial = OrderTrial(changes, namespace.snapshot, login.context, now: Clock.unixMilliseconds)
        guard trial.isHeavy(settings) else { return ordered(number, trial.isAllowed(), change) }
        onWorker {
            trial.isAllowed()
        } then: { session, isAllowed in
            session.ordered(number, isAllowed, change)
        }
    }

    private func ordered(_ number: Int64, _ isAllowed: Bool, _ change: (inout DisconnectQueue) -> Void) {
        guard isAllowed else { return answer(number, "permission_denied", .text("Permission denied")) }
        adopt(number, change)
    }

    private func adopt(_ number: Int64, _ change: (inout DisconnectQueue) -> Void) {
        let had = !disconnects.isEmpty
        var changed = disconnects
        change(&changed)
        guard changed.orders.count <= settings.maxDisconnectOrders else {
            return answer(number, "too_big", .text("Too many onDisconnect operations"))
        }
        disconnects = changed
        if disconnects.isEmpty { orderShare = nil }
        guard had || !disconnects.isEmpty else { return answer(number, "ok", .none) }
        unstored.append(number)
        store()
    }

    /// Stores the orders as they are now, and answers the requests that made them so. What changes meanwhile is stored
    /// next, all at once.
    func store() {
        guard let link = loop.link else { return }
        guard !isStoring else {
            mustStoreAgain = true
            return
        }
        isStoring = true
        let numbers = unstored
        unstored.removeAll()
        let id = id
        let saved = disconnects
        loop.gateway.engine.sessions.save(stored) { isStored in
            link.post { loop in loop.sessions[id]?.storingEnded(numbers, isStored ? saved : nil) }
        }
    }

    /// - Parameter saved: what the database has now; nil when that is not known.
    private func storingEnded(_ numbers: [Int64], _ saved: DisconnectQueue?) {
        isStoring = false
        if let saved {
            storedDisconnects = saved
            isStoreUnsure = false
            for number in numbers { answer(number, "ok", .none) }
        } else {
            // Nothing that was refused is done later, and neither is what came on top of it.
            for number in numbers + unstored {
                answer(number, "unavailable", .text("The service is unavailable. Try again later."))
            }
            unstored.removeAll()
            mustStoreAgain = false
            disconnects = storedDisconnects
            isStoreUnsure = true
            storeLater()
        }
        if mustStoreAgain {
            mustStoreAgain = false
            store()
        }
        hasStored()
    }

    /// The save that failed may have been carried out all the same: until it is known to be undone, it is tried to be.
    private func storeLater() {
        _ = loop.loop.schedule(afterMilliseconds: 1_000) { [weak self] in
            guard let self, !self.isEnded else { return }
            if !self.isStoring { self.store() }
        }
    }
}
