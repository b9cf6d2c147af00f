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
    /// Whether later requests of the client wait for it.
    let isHolding: Bool
    /// Sends it anyway when its slot is too long in coming.
    let timer: LoopTimer
}

extension RealtimeSession {
    /// Sends a conditional write, or keeps it until its slot when others contend for the path. The client's next request sends
    /// it before its slot, unless the client has been refused a few times: then its requests wait, too.
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
        let arrival = queues.arrives(id, at: place, mayWait: mayWait)
        guard arrival != .isSent else { return submit(number, write, at: place, performed) }
        contended.insert(place)
        let timer = loop.schedule(afterMilliseconds: settings.transactionSlotMilliseconds * 10) { [weak self] in
            self?.sendWaitingTransaction()
        }
        waitingTransaction = WaitingTransaction(
            number: number, write: write, place: place, share: performed, isHolding: arrival == .holds, timer: timer)
        context.metrics.waitingTransactions.add(1)
        if arrival == .holds { hold() }
    }

    /// Whether a transaction waits for its slot, and the client's later requests with it.
    var isHeldByTransaction: Bool { waitingTransaction?.isHolding ?? false }

    /// Sends the transaction that waits for its slot, if any, and performs what waited for it: requests are applied in the
    /// order of their arrival (reference: rtdb-protocol 3.6).
    func sendWaitingTransaction() {
        guard let waiting = takeWaitingTransaction() else { return }
        context.transactionQueues.sendsEarly(id, at: waiting.place)
        submit(waiting.number, waiting.write, at: waiting.place, waiting.share)
        if waiting.isHolding { release() }
    }

    /// Sends the transactions that wait, so that no request waits for a slot.
    func sendWaitingTransactions() {
        while waitingTransaction != nil { sendWaitingTransaction() }
    }

    /// Forgets the transactions that wait, and performs what waited for them.
    func dropWaitingTransactions() {
        while let waiting = takeWaitingTransaction() {
            if waiting.isHolding { release() }
        }
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
        for place in contended { host.follow(context.transactionQueues.leaves(id, place), at: place) }
        contended.removeAll()
    }
}
