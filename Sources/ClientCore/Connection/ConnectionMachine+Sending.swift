import Tree
import Wire

extension ConnectionMachine {
    /// Takes the number for one more request, which the caller sends.
    mutating func nextRequest(_ request: OpenConnection.Request, now: Int64) -> Int64 {
        connection?.ask(request, now: now) ?? 0
    }

    /// Sends a request that does not wait its turn.
    mutating func send(_ action: ClientAction, as request: OpenConnection.Request, now: Int64) {
        let number = nextRequest(request, now: now)
        for text in OutgoingMessage.frames(ClientRequest(number: number, action: action)) {
            effects.append(.send(text))
        }
    }

    /// The login is settled: all that waits is sent, the listens first. What the server tells of them then stands on what
    /// it had before the writes, and each write's echo comes after.
    mutating func becomeReady(now: Int64) {
        phase = .ready
        for serial in listens.beginAgain() { sendListen(serial, now: now) }
        waits.connectionEnded()
        sendQueued(now: now)
        sendWaits(now: now)
    }

    /// Sends what waits its turn, as far ahead of the server's answers as the settings let it.
    mutating func sendQueued(now: Int64) {
        guard phase == .ready else { return }
        while connection?.hasRoom(settings) == true, let (serial, content) = queue.next(writes: !areWritesHeld) {
            send(content, serial, now: now)
        }
    }

    private mutating func send(_ content: QueuedRequest.Content, _ serial: UInt64, now: Int64) {
        let number = connection?.nextNumber ?? 0
        let name = connection?.isExtended == true ? content.name : nil
        let texts = OutgoingMessage.frames(ClientRequest(number: number, action: content.action, name: name))
        guard !texts.isEmpty else {
            // Longer than a client can say.
            _ = queue.remove(serial)
            tell(content, .refused(RequestFailure(status: .tooBig, explanation: "The request is too large to be sent")))
            return
        }
        let byteCount = texts.reduce(0) { $0 + $1.count }
        _ = nextRequest(.queued(serial, byteCount: byteCount), now: now)
        connection?.bytesInFlight += byteCount
        connection?.requestsInFlight += 1
        for text in texts { effects.append(.send(text)) }
    }

    /// Tells the owner what became of a request of the queue.
    mutating func tell(_ content: QueuedRequest.Content, _ outcome: RequestOutcome, seq: Int64? = nil) {
        switch content {
        case .write(let write, _): effects.append(.report(.writeAnswered(write.id, outcome, seq: seq)))
        case .onDisconnect(let id, _): effects.append(.report(.onDisconnectAnswered(id, outcome)))
        case .get(let id, _):
            switch outcome {
            case .refused(let failure): effects.append(.report(.getAnswered(id, .refused(failure))))
            case .done, .lost, .purged: effects.append(.report(.getAnswered(id, .lost)))
            }
        }
    }
}

extension QueuedRequest.Content {
    /// What the server is to know it by when it comes again. A transaction is not sent twice.
    var name: WriteName? {
        if case .write(let write, nil) = self { write.name } else { nil }
    }

    /// What is asked of the server.
    var action: ClientAction {
        switch self {
        case .write(let write, let hash):
            switch write.content {
            case .overwrite(let node):
                return .put(
                    write.path, JSONParser.Parsed(node: node, hasServerValue: false), hash: hash, byteCount: 0)
            case .merge(let changes):
                let absolute = changes.map { Change(path: write.path.appending($0.path), value: $0.value) }
                return .merge(write.path, absolute, hasServerValue: false, hash: hash, byteCount: 0)
            }
        case .onDisconnect(_, let action): return action
        case .get(_, let spec): return .get(spec.path, spec.loadsAllData ? nil : spec.query)
        }
    }
}

/// The texts of a request: one, or a count and the pieces of a long one.
enum OutgoingMessage {
    static func frames(_ request: ClientRequest) -> [[UInt8]] {
        guard let text = request.text, let pieces = Segments.split(text) else { return [] }
        return pieces.count == 1 ? [text] : pieces.map { Array($0) }
    }
}
