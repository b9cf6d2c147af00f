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
        var write = Write(
            action, operation: hash == nil ? operation : .transaction, expectedHash: hash,
            hasServerValue: hasServerValue, byteCount: byteCount + 64, auth: login.context,
            origin: login.origin(via: .ws, address: remoteAddress))
        if hash != nil { return transact(number, write, mayJoin: mayBeGiven, mayWait: isLast) }
        let share = performed
        // A large one may be overtaken by what others write, but by nothing of this client's.
        let isHeld = writes.isEmpty && namespace.isLarge(write)
        if isHeld {
            write.mayBeOvertaken = true
            hold()
        }
        let token = loop.submit(write, for: self) { session, outcome in
            withExtendedLifetime(share) { session.answer(number, outcome) }
            guard isHeld else { return }
            session.largeWrite = nil
            session.release()
        }
        if isHeld { largeWrite = token }
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
        // Counted up as they come, and measured only when that has become too much: most replace earlier ones.
        let isToMeasure = (share?.bytes ?? 0) + byteCount > settings.maxMessageBytes
        guard let share, isToMeasure || share.grow(by: byteCount) else {
            return answer(number, "too_big", .text(Self.tooManyOperations))
        }
        let trial = OperationTrial(changes ?? [], namespace.snapshot, login.context, now: Clock.unixMilliseconds)
        let before = disconnects
        let make: @Sendable () -> (queue: DisconnectQueue, byteCount: Int?)? = {
            guard trial.isAllowed() else { return nil }
            var queue = before
            change(&queue)
            return (queue, isToMeasure ? queue.byteCount : nil)
        }
        guard isToMeasure || trial.isHeavy(settings) else { return ordered(number, make(), share) }
        onWorker(make) { session, made in session.ordered(number, made, share) }
    }

    private static let tooManyOperations = "The onDisconnect operations are too large"

    /// - Parameter made: what is to be done at the end now, and its size where that was measured; nil where it is denied.
    private func ordered(_ number: Int64, _ made: (queue: DisconnectQueue, byteCount: Int?)?, _ share: MemoryShare) {
        guard let (queue, byteCount) = made else {
            return answer(number, "permission_denied", .text("Permission denied"))
        }
        if let byteCount, byteCount > settings.maxMessageBytes || !share.resize(to: byteCount) {
            return answer(number, "too_big", .text(Self.tooManyOperations))
        }
        guard queue.operations.count <= settings.maxDisconnectOperations else {
            return answer(number, "too_big", .text("Too many onDisconnect operations"))
        }
        let had = !disconnects.isEmpty
        disconnects = queue
        if queue.isEmpty { orderShare = nil }
        guard had || !queue.isEmpty else { return answer(number, "ok", .none) }
        unstored.append(number)
        store()
    }

    /// Stores the operations as they are now, and answers the requests that made them so. What changes meanwhile is stored
    /// next, all at once.
    func store() {
        guard let link = loop.link else { return }
        guard !isStoring else {
            mustStoreAgain = true
            return
        }
        isStoring = true
        saves += 1
        let numbers = unstored
        unstored.removeAll()
        let id = id
        let saved = disconnects
        loop.gateway.engine.sessions.save(stored, number: saves, isFirst: !isKept) { outcome in
            link.post { loop in loop.sessions[id]?.storingEnded(numbers, saved, outcome) }
        }
    }

    private func storingEnded(_ numbers: [Int64], _ saved: DisconnectQueue, _ outcome: SaveOutcome) {
        isStoring = false
        switch outcome {
        case .saved:
            storedDisconnects = saved
            isKept = true
            for number in numbers { answer(number, "ok", .none) }
        case .refused:
            // Nothing that was refused is done later, and neither is what came on top of it.
            for number in numbers + unstored {
                answer(number, "unavailable", .text("The service is unavailable. Try again later."))
            }
            unstored.removeAll()
            mustStoreAgain = false
            disconnects = storedDisconnects
        case .over: isOver()
        case .unknown:
            // Not refused, as it may yet be done; what there is of it is done at the end, which is now.
            isKept = true
            unstored.removeAll()
            mustStoreAgain = false
            close()
        }
        if mustStoreAgain {
            mustStoreAgain = false
            store()
        }
        hasStored()
    }
}
