import Engine
import HTTPServer
import Runtime
import Tree

/// A conditional write that waits for its turn.
struct WaitingTransaction {
    let number: Int64
    let write: Write
    let place: TransactionPlace
    /// Sends it anyway when its turn is too long in coming.
    let timer: LoopTimer
}

extension RealtimeSession {
    /// Sends a conditional write, or keeps it until its turn when others contend for the path.
    ///
    /// - Parameter mayWait: false when requests wait behind it.
    func transact(_ number: Int64, _ write: Write, mayWait: Bool) {
        let place = TransactionPlace(namespace: namespace.id, path: write.path)
        let lines = loop.gateway.transactionLines
        guard settings.transactionTurnMilliseconds > 0 else { return submit(number, write, at: place) }
        if lines.arrives(id, at: place, mayWait: mayWait) { return submit(number, write, at: place) }
        contended.insert(place)
        let timer = loop.loop.schedule(afterMilliseconds: settings.transactionTurnMilliseconds * 10) { [weak self] in
            self?.sendWaitingTransaction()
        }
        waitingTransaction = WaitingTransaction(number: number, write: write, place: place, timer: timer)
        loop.gateway.metrics.waitingTransactions.add(1)
    }

    /// Sends the transaction that waits for its turn, if any: requests are applied in the order of their arrival
    /// (reference: rtdb-protocol 3.6), and none has to wait for other clients.
    func sendWaitingTransaction() {
        guard let waiting = takeWaitingTransaction() else { return }
        loop.gateway.transactionLines.sendsEarly(id, at: waiting.place)
        submit(waiting.number, waiting.write, at: waiting.place)
    }

    private func takeWaitingTransaction() -> WaitingTransaction? {
        guard let waiting = waitingTransaction else { return nil }
        waitingTransaction = nil
        waiting.timer.cancel()
        loop.gateway.metrics.waitingTransactions.add(-1)
        return waiting
    }

    private func submit(_ number: Int64, _ write: Write, at place: TransactionPlace) {
        loop.submit(write, for: self) { session, outcome in
            session.transacted(outcome, at: place)
            session.answer(number, outcome)
        }
    }

    private func transacted(_ outcome: WriteOutcome, at place: TransactionPlace) {
        guard settings.transactionTurnMilliseconds > 0 else { return }
        if case .preconditionFailed = outcome {
            contended.insert(place)
            loop.begin(loop.gateway.transactionLines.wasRefused(id, at: place), at: place)
        } else if contended.remove(place) != nil {
            loop.begin(loop.gateway.transactionLines.leaves(id, place), at: place)
        }
    }

    /// The session is over: nobody waits for it, and what waits is not done. Clients send it again, or not: they never
    /// had an answer.
    func leaveLines() {
        _ = takeWaitingTransaction()
        for place in contended { loop.begin(loop.gateway.transactionLines.leaves(id, place), at: place) }
        contended.removeAll()
    }
}

extension GatewayLoop {
    /// Has a turn's session told, wherever it lives, and sees to it that the turn ends.
    func begin(_ turn: TransactionLine.Turn?, at place: TransactionPlace) {
        guard let turn else { return }
        // A session that is ending meanwhile leaves its lines by itself.
        gateway.sessions.link(of: turn.session)?.post { loop in
            guard let session = loop.sessions[turn.session] else { return }
            session.contended.insert(place)
            if session.waitingTransaction?.place == place { session.sendWaitingTransaction() }
            loop.watch(turn, at: place, afterMilliseconds: loop.patience)
        }
    }

    private var patience: Int64 { Int64(gateway.settings.transactionTurnMilliseconds) }

    private func watch(_ turn: TransactionLine.Turn, at place: TransactionPlace, afterMilliseconds delay: Int64) {
        _ = loop.schedule(afterMilliseconds: Int(delay)) { [weak self] in
            guard let self else { return }
            switch self.gateway.transactionLines.check(turn, at: place, patience: self.patience) {
            case .over: break
            case .goesOn(let time): self.watch(turn, at: place, afterMilliseconds: time)
            case .expired(let next):
                self.sessions[turn.session]?.contended.remove(place)
                self.begin(next, at: place)
            }
        }
    }
}
