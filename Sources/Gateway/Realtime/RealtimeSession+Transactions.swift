import Engine
import HTTPServer
import Runtime
import Tree

/// A conditional write that waits for its turn.
struct WaitingTransaction {
    let number: Int64
    let write: Write
    let place: TransactionPlace
    let share: MemoryShare?
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
        guard settings.transactionTurnMilliseconds > 0 else {
            return submit(number, write, at: place, performed)
        }
        if lines.arrives(id, at: place, mayWait: mayWait) { return submit(number, write, at: place, performed) }
        contended.insert(place)
        let timer = loop.loop.schedule(afterMilliseconds: settings.transactionTurnMilliseconds * 10) { [weak self] in
            self?.sendWaitingTransaction()
        }
        waitingTransaction = WaitingTransaction(
            number: number, write: write, place: place, share: performed, timer: timer)
        loop.gateway.metrics.waitingTransactions.add(1)
    }

    /// Sends the transaction that waits for its turn, if any: requests are applied in the order of their arrival
    /// (reference: rtdb-protocol 3.6), and none has to wait for other clients.
    func sendWaitingTransaction() {
        guard let waiting = takeWaitingTransaction() else { return }
        loop.gateway.transactionLines.sendsEarly(id, at: waiting.place)
        submit(waiting.number, waiting.write, at: waiting.place, waiting.share)
    }

    private func takeWaitingTransaction() -> WaitingTransaction? {
        guard let waiting = waitingTransaction else { return nil }
        waitingTransaction = nil
        waiting.timer.cancel()
        loop.gateway.metrics.waitingTransactions.add(-1)
        return waiting
    }

    private func submit(_ number: Int64, _ write: Write, at place: TransactionPlace, _ share: MemoryShare?) {
        loop.submit(write, for: self) { session, outcome in
            withExtendedLifetime(share) {
                session.transacted(outcome, at: place)
                session.answer(number, outcome)
            }
        }
    }

    private func transacted(_ outcome: WriteOutcome, at place: TransactionPlace) {
        guard settings.transactionTurnMilliseconds > 0 else { return }
        if case .preconditionFailed = outcome {
            contended.insert(place)
            loop.follow(loop.gateway.transactionLines.wasRefused(id, at: place), at: place)
        } else if contended.remove(place) != nil {
            loop.follow(loop.gateway.transactionLines.leaves(id, place), at: place)
        }
    }

    /// The session is over: nobody waits for it, and what waits is not done. Clients send it again, or not: they never
    /// had an answer.
    func leaveLines() {
        _ = takeWaitingTransaction()
        for place in contended { loop.follow(loop.gateway.transactionLines.leaves(id, place), at: place) }
        contended.removeAll()
    }
}
