import Engine
import HTTPServer
import Runtime
import Tree

/// A conditional write that waits for its slot.
struct WaitingTransaction {
    let number: Int64
    let write: Write
    let place: TransactionKey
    let share: MemoryShare?
    /// Sends it anyway when its slot is too long in coming.
    let timer: LoopTimer
}

extension RealtimeSession {
    /// Sends a conditional write, or keeps it until its slot when others contend for the path.
    ///
    /// - Parameters:
    ///   - mayJoin: false for what the rules would refuse as the tree is: nobody waits for that.
    ///   - mayWait: false when requests wait behind it.
    func transact(_ number: Int64, _ write: Write, mayJoin: Bool, mayWait: Bool) {
        let place = TransactionKey(namespace: namespace.key, path: write.path)
        let queues = context.transactionQueues
        guard settings.transactionSlotMilliseconds > 0, mayJoin else {
            return submit(number, write, at: place, performed)
        }
        if queues.arrives(id, at: place, mayWait: mayWait) { return submit(number, write, at: place, performed) }
        contended.insert(place)
        let timer = loop.schedule(afterMilliseconds: settings.transactionSlotMilliseconds * 10) { [weak self] in
            self?.sendWaitingTransaction()
        }
        waitingTransaction = WaitingTransaction(
            number: number, write: write, place: place, share: performed, timer: timer)
        context.metrics.waitingTransactions.add(1)
    }

    /// Sends the transaction that waits for its slot, if any: requests are applied in the order of their arrival
    /// (reference: rtdb-protocol 3.6), and none has to wait for other clients.
    func sendWaitingTransaction() {
        guard let waiting = takeWaitingTransaction() else { return }
        context.transactionQueues.sendsEarly(id, at: waiting.place)
        submit(waiting.number, waiting.write, at: waiting.place, waiting.share)
    }

    private func takeWaitingTransaction() -> WaitingTransaction? {
        guard let waiting = waitingTransaction else { return nil }
        waitingTransaction = nil
        waiting.timer.cancel()
        context.metrics.waitingTransactions.add(-1)
        return waiting
    }

    private func submit(_ number: Int64, _ write: Write, at place: TransactionKey, _ share: MemoryShare?) {
        host.submit(write, for: self) { session, outcome in
            withExtendedLifetime(share) {
                session.transacted(outcome, at: place)
                session.answer(number, outcome)
            }
        }
    }

    func transacted(_ outcome: WriteOutcome, at place: TransactionKey) {
        guard settings.transactionSlotMilliseconds > 0 else { return }
        if case .preconditionFailed = outcome {
            contended.insert(place)
            host.follow(context.transactionQueues.wasRefused(id, at: place), at: place)
        } else if contended.remove(place) != nil {
            host.follow(context.transactionQueues.leaves(id, place), at: place)
        }
    }

    /// The session is over: nobody waits for it, and what waits is not done. Clients send it again, or not: they never
    /// had an answer.
    func leaveQueues() {
        _ = takeWaitingTransaction()
        for place in contended { host.follow(context.transactionQueues.leaves(id, place), at: place) }
        contended.removeAll()
    }
}
