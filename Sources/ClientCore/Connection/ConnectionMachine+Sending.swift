import Tree
import Wire

extension ConnectionMachine {
    /// Allocates the number of one more request, which the caller sends.
    mutating func nextRequest(_ request: OpenConnection.Request, now: Int64) -> Int64 {
        connection?.ask(request, now: now) ?? 0
    }

    /// Sends a request without queueing it.
    mutating func send(_ action: ClientAction, as request: OpenConnection.Request, now: Int64) {
        let number = nextRequest(request, now: now)
        for text in OutgoingMessage.frames(ClientRequest(number: number, action: action)) {
            effects.append(.send(text))
        }
    }

    /// Sends everything that waits once the login is settled, listens first. So the server's data for the listens is
    /// based on the state before the writes, and each write's echo comes after it.
    mutating func becomeReady(now: Int64) {
        phase = .ready
        for serial in listens.beginAgain() { sendListen(serial, now: now) }
        waits.connectionEnded()
        sendQueued(now: now)
        sendWaits(now: now)
    }

    /// Sends queued requests, as far ahead of the server's answers as the settings allow.
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
            // The request is longer than the protocol allows.
            _ = queue.remove(serial)
            report(
                content, .refused(RequestFailure(status: .tooBig, explanation: "The request is too large to be sent")))
            return
        }
        let byteCount = texts.reduce(0) { $0 + $1.count }
        _ = nextRequest(.queued(serial, byteCount: byteCount), now: now)
        connection?.bytesInFlight += byteCount
        connection?.requestsInFlight += 1
        for text in texts { effects.append(.send(text)) }
    }

    /// Reports the outcome of a queued request to the owner.
    mutating func report(_ content: QueuedRequest.Content, _ outcome: RequestOutcome, seq: Int64? = nil) {
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
    /// The name by which the server recognizes a write that is sent again. A transaction is not sent twice.
    var name: WriteName? {
        if case .write(let write, nil) = self { write.name } else { nil }
    }

    /// The action that the request asks of the server.
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

/// The frames of a request: one text, or a count and the segments of a long one.
enum OutgoingMessage {
    static func frames(_ request: ClientRequest) -> [[UInt8]] {
        guard let text = request.text, let pieces = Segments.split(text) else { return [] }
        return pieces.count == 1 ? [text] : pieces.map { Array($0) }
    }
}
