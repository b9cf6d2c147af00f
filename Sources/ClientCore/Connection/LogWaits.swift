import Tree
import Wire

/// The waits for entries of the server's log, in order of arrival.
struct LogWaits: Sendable {
    struct Wait: Sendable {
        let id: RequestID
        let seq: Int64
        let path: Path?
        /// Whether it was sent over the present connection.
        var isSent = false
    }

    private(set) var all: [Wait] = []

    mutating func add(_ id: RequestID, _ seq: Int64, _ path: Path?) {
        all.append(Wait(id: id, seq: seq, path: path))
    }

    mutating func remove(_ id: RequestID) { all.removeAll { $0.id == id } }

    func has(_ id: RequestID) -> Bool { all.contains { $0.id == id } }

    /// Returns the next wait to send and marks it as sent.
    mutating func next() -> Wait? {
        guard let index = all.firstIndex(where: { !$0.isSent }) else { return nil }
        all[index].isSent = true
        return all[index]
    }

    /// Marks a wait to be sent again.
    mutating func again(_ id: RequestID) {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return }
        all[index].isSent = false
    }

    mutating func connectionEnded() {
        for index in all.indices { all[index].isSent = false }
    }

    mutating func removeAll() -> [RequestID] {
        defer { all = [] }
        return all.map(\.id)
    }
}

extension ConnectionMachine {
    /// Maximum number of waits that are sent ahead of the server's answers.
    private static var maxWaitsInFlight: Int { 8 }
    /// Milliseconds after which a wait that the server has abandoned is sent again.
    private static var waitPause: Int64 { 1_000 }

    /// Sends waits after the listens, once the server can no longer refuse to resume one of those.
    mutating func sendWaits(now: Int64) {
        guard phase == .ready, !waits.all.isEmpty, let open = connection else { return }
        guard open.isExtended else {
            for id in waits.removeAll() { effects.append(.report(.waitAnswered(id, .unsupported))) }
            return
        }
        guard open.resuming.isEmpty, open.waitsAgainAt == nil else { return }
        while let inFlight = connection?.waitsInFlight, inFlight < Self.maxWaitsInFlight, let wait = waits.next() {
            connection?.waitsInFlight += 1
            send(.wait(seq: wait.seq, path: wait.path), as: .wait(wait.id), now: now)
        }
    }

    mutating func waitAnswered(_ id: RequestID, _ answer: ServerResponse, now: Int64) {
        connection?.waitsInFlight -= 1
        if waits.has(id) {
            switch answer.status {
            case .ok:
                let seq = waits.all.first { $0.id == id }?.seq ?? 0
                waits.remove(id)
                effects.append(.report(.waitAnswered(id, .reached(seq: answer.mark?.seq ?? seq))))
            case .unavailable:
                waits.again(id)
                connection?.waitsAgainAt = now + Self.waitPause
            default:
                waits.remove(id)
                effects.append(.report(.waitAnswered(id, .refused(failure(answer)))))
            }
        }
        sendWaits(now: now)
    }

    /// Handles the answer to a listen. Returns whether the listen has been sent again, with hashes.
    mutating func resumptionAnswered(_ serial: UInt64, _ answer: ServerResponse, now: Int64) -> Bool {
        guard connection?.resuming.remove(serial) != nil else { return false }
        guard answer.status == .notResumed else { return false }
        if listens[serial] != nil { sendListen(serial, mayResume: false, now: now) }
        return true
    }
}
