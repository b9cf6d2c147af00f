import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension RealtimeSession {
    func write(
        _ number: Int64, _ action: Write.Action, hash: String?, operation: Tree.Operation, hasServerValue: Bool,
        byteCount: Int, name: WriteName?, isLast: Bool
    ) {
        guard writes.count < settings.maxWaitingRequests else {
            return answer(number, "unavailable", .text("Too many writes are waiting."))
        }
        // Who is going to be refused must neither use up what others may write nor have them wait.
        let mayBeGiven = mayBeGiven(action)
        if mayBeGiven, context.limiter.write(byteCount, to: namespace.name) != nil { return answerTooMany(number) }
        context.metrics.writes.add()
        var write = Write(
            action, operation: hash == nil ? operation : .transaction, expectedHash: hash,
            hasServerValue: hasServerValue, byteCount: byteCount + 64, auth: login.context,
            origin: login.origin(via: .ws, address: remoteAddress),
            // A transaction says itself what it is to be done on.
            name: isExtended && hash == nil ? name : nil)
        if hash != nil { return transact(number, write, mayJoin: mayBeGiven, mayWait: isLast) }
        let share = performed
        // A large one may be overtaken by what others write, but by nothing of this client's.
        let isHeld = writes.isEmpty && namespace.isLarge(write)
        if isHeld {
            write.mayBeOvertaken = true
            hold()
        }
        let token = host.submit(write, for: self) { session, outcome in
            withExtendedLifetime(share) { session.answer(number, outcome) }
            guard isHeld else { return }
            session.largeWrite = nil
            session.release()
        }
        if isHeld { largeWrite = token }
    }

    /// A write that is refused without the committers: what was done when it came first is not told as refused.
    func refuse(_ number: Int64, _ name: WriteName?, _ refusal: @escaping (RealtimeSession) -> Void) {
        guard isExtended, let name, writes.count < settings.maxWaitingRequests else { return refusal(self) }
        let question = Write(.recall, operation: .set, byteCount: 64, auth: login.context, name: name)
        _ = host.submit(question, for: self) { session, outcome in
            switch outcome {
            case .committed, .failed: session.answer(number, outcome)
            default: refusal(session)
            }
        }
    }

    /// Whether the rules may let a write in as the tree is now. Those before it may make it otherwise.
    private func mayBeGiven(_ action: Write.Action) -> Bool {
        let snapshot = namespace.snapshot
        let permission = WritePermission(snapshot.rules.set, login.context, now: Clock.unixMilliseconds)
        return switch action {
        case .set(let path, _): permission.mayBeGiven(at: path, root: snapshot.root)
        case .update(_, let changes): permission.mayBeGiven(to: changes, root: snapshot.root)
        case .rules, .disconnect, .recall: false
        }
    }

    func answer(_ number: Int64, _ outcome: WriteOutcome) {
        switch outcome {
        case .committed(let seq, _): answerWrite(number, "ok", .none, at: LogMark(seq: seq))
        case .preconditionFailed: answerWrite(number, "datastale", .text("Transaction hash does not match"))
        case .denied: answerWrite(number, "permission_denied", .text("Permission denied"))
        case .tooLarge: answerWrite(number, "too_big", .text(AnswerText.tooBig))
        case .refused(let reason): answerWrite(number, "failure", .text(reason))
        case .failed(let error):
            switch error {
            // Nothing was written. Clients send what had no answer once more when they are connected again, wherever the namespace
            // is then; what is refused they give up.
            case .moving: host.home.end(id) {}
            case .unavailable, .overloaded, .stopping, .unknownNamespace:
                answerWrite(number, "unavailable", .text("The service is unavailable. Try again later."))
            case .outcomeUnknown: answerWrite(number, "unavailable", .text(error.description))
            case .corrupt: answerWrite(number, "failure", .text("Internal server error"))
            }
        }
    }
}
