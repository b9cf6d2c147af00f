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
        // A write that the rules will refuse must neither use up the namespace's limit nor make other writes wait.
        let mayBeGiven = mayBeGiven(action)
        if mayBeGiven, context.limiter.write(byteCount, to: namespace.name) != nil { return answerTooMany(number) }
        context.metrics.writes.add()
        var write = Write(
            action, operation: hash == nil ? operation : .transaction, expectedHash: hash,
            hasServerValue: hasServerValue, byteCount: byteCount + 64, auth: login.context,
            origin: login.origin(via: .ws, address: remoteAddress),
            // A transaction's hash already prevents a repeated execution.
            name: isExtended && hash == nil ? name : nil)
        if hash != nil {
            return transact(number, write, mayJoin: mayBeGiven && !namespace.isFollowing, mayWait: isLast)
        }
        let share = performed
        // Writes of other clients may overtake a large write. Later requests of this client may not.
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

    /// Refuses a write without the committers, unless an earlier attempt with the same name was committed: then answers
    /// with that outcome.
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

    /// Returns whether the rules may permit a write in the present tree. Earlier writes may still change the result.
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
            // The write was not executed. After reconnecting, clients send writes without an answer again, wherever the
            // namespace is then; refused writes they would give up.
            case .moving: host.sessionLoop.end(id) {}
            case .readOnly: answerWrite(number, "read_only", .text(error.description))
            case .unavailable, .overloaded, .stopping, .unknownNamespace, .superseded:
                answerWrite(number, "unavailable", .text("The service is unavailable. Try again later."))
            case .outcomeUnknown: answerWrite(number, "unavailable", .text(error.description))
            case .corrupt: answerWrite(number, "failure", .text("Internal server error"))
            }
        }
    }
}

/// The writes in flight of a loop's realtime sessions. Belongs to the loop's thread.
final class RealtimeWrites {
    private let sessions: SessionTable
    private let sink: RealtimeSink
    private let link: LoopLink<RealtimeWrites>
    /// The sessions of the writes, by the writes' numbers.
    private var writers: [UInt64: String] = [:]
    /// Actions to run after writes of clients that have disconnected.
    private var endings: [UInt64: () -> Void] = [:]
    private var lastNumber: UInt64 = 0

    init(_ loop: EventLoop, _ sessions: SessionTable) {
        self.sessions = sessions
        link = LoopLink(loop)
        sink = RealtimeSink(link)
        link.lead(to: self)
    }

    /// See `RealtimeHost.submit`.
    func submit(
        _ write: Write, for session: RealtimeSession, _ body: @escaping (RealtimeSession, WriteOutcome) -> Void
    ) -> UInt64 {
        lastNumber += 1
        let number = lastNumber
        session.writes[number] = body
        writers[number] = session.id
        session.namespace.submit(write, to: sink, token: number)
        return number
    }

    /// See `RealtimeHost.afterWrite`.
    func afterWrite(_ number: UInt64, _ body: @escaping () -> Void) { endings[number] = body }

    fileprivate func written(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        // The answers to several writes of a client are sent together.
        var collecting: [any SessionTransport] = []
        for (number, outcome) in outcomes {
            if let ending = endings.removeValue(forKey: number) { ending() }
            guard let id = writers.removeValue(forKey: number), let session = sessions[id],
                let body = session.writes.removeValue(forKey: number)
            else { continue }
            if session.transport.beginCollecting() { collecting.append(session.transport) }
            body(session, outcome)
            session.writeAnswered()
        }
        for transport in collecting { transport.sendCollected() }
    }
}

/// Passes the outcomes of realtime writes back to their loop.
private final class RealtimeSink: WriteSink {
    private let link: LoopLink<RealtimeWrites>

    init(_ link: LoopLink<RealtimeWrites>) { self.link = link }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        link.post { $0.written(outcomes) }
    }
}
