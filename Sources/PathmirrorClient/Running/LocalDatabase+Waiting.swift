internal import ClientCore
internal import Tree

extension LocalDatabase {
    /// - Parameters:
    ///   - milliseconds: The timeout of the wait, or nil for none.
    func wait(_ id: RequestID, _ wait: SeqWait, milliseconds: Int64?) {
        guard !isClosed else { return callBack { wait.end(DatabaseError.appIsDeleted) } }
        waits[id] = wait
        machine.wait(id, for: wait.seq, path: lastGet, now: now)
        guard let milliseconds else { return }
        let seq = wait.seq
        outside.perform(after: milliseconds) { database in
            let error = DatabaseError(
                .timedOut, "The server did not reach entry \(seq) of its log within \(milliseconds) ms.")
            database.endWait(id, error)
        }
    }

    func cancelWait(_ id: RequestID) { endWait(id, CancellationError()) }

    func waitAnswered(_ id: RequestID, _ outcome: WaitOutcome) {
        switch outcome {
        case .reached(let seq):
            tree.reached(seq)
            endWait(id, nil)
        case .unsupported:
            endWait(
                id, DatabaseError(.unsupported, "The server has no log to wait for: it is not a Pathmirror gateway."))
        case .refused(let failure):
            endWait(
                id, DatabaseError(failure, "waiting for an entry of the log: first listen to data or read data"))
        }
    }

    /// Fails all waits because the database is closed.
    func endWaits() {
        for id in waits.keys { endWait(id, DatabaseError.appIsDeleted) }
    }

    /// Ends a wait, after all events raised before.
    private func endWait(_ id: RequestID, _ error: (any Error & Sendable)?) {
        guard let wait = waits.removeValue(forKey: id) else { return }
        machine.cancelWait(id)
        callBack { wait.end(error) }
    }
}

/// A caller that waits for an entry of the server's log.
struct SeqWait: Sendable {
    let seq: Int64
    private let continuation: UnsafeContinuation<Void, any Error>

    init(_ seq: Int64, _ continuation: UnsafeContinuation<Void, any Error>) {
        self.seq = seq
        self.continuation = continuation
    }

    /// Ends the wait. Must be called once, on the callback queue.
    func end(_ error: (any Error)?) {
        if let error { continuation.resume(throwing: error) } else { continuation.resume() }
    }
}
