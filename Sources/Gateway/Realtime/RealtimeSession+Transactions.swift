import Engine
import HTTPServer
import Runtime
import Tree

/// A conditional write that waits for its slot.
struct WaitingTransaction {
    let number: Int64
    let write: Write
    let key: TransactionKey
    let share: MemoryShare?
    /// Whether later requests of the client wait for the transaction.
    let isHolding: Bool
    /// Sends the transaction anyway if its slot does not begin in time.
    let timer: LoopTimer
}

extension RealtimeSession {
    /// Sends a conditional write, or keeps it until its slot if other clients contend for the path. The client's next
    /// request sends the write before its slot, unless it was refused a few times: then the client's requests wait as
    /// well.
    ///
    /// - Parameters:
    ///   - mayJoin: false if the rules would refuse the write in the present tree. It then takes no slot.
    ///   - mayWait: false if later requests are already waiting.
    func transact(_ number: Int64, _ write: Write, mayJoin: Bool, mayWait: Bool) {
        let key = TransactionKey(namespace: namespace.key, path: write.path)
        let queues = context.transactionQueues
        guard settings.transactionSlotMilliseconds > 0, mayJoin else {
            return submit(number, write, at: key, performed)
        }
        let arrival = queues.arrives(id, at: key, mayWait: mayWait)
        guard arrival != .isSent else { return submit(number, write, at: key, performed) }
        contended.insert(key)
        let timer = loop.schedule(afterMilliseconds: settings.transactionSlotMilliseconds * 10) { [weak self] in
            self?.sendWaitingTransaction()
        }
        waitingTransaction = WaitingTransaction(
            number: number, write: write, key: key, share: performed, isHolding: arrival == .holds, timer: timer)
        context.metrics.waitingTransactions.add(1)
        if arrival == .holds { hold() }
    }

    /// Whether a transaction waits for its slot and holds the client's later requests.
    var isHeldByTransaction: Bool { waitingTransaction?.isHolding ?? false }

    /// Sends the transaction that waits for its slot, if any, and performs the requests that waited for it: requests
    /// are applied in the order of their arrival (reference: rtdb-protocol 3.6).
    func sendWaitingTransaction() {
        guard let waiting = takeWaitingTransaction() else { return }
        context.transactionQueues.sendsEarly(id, at: waiting.key)
        submit(waiting.number, waiting.write, at: waiting.key, waiting.share)
        if waiting.isHolding { release() }
    }

    /// Sends the waiting transactions, so that no request waits for a slot.
    func sendWaitingTransactions() {
        while waitingTransaction != nil { sendWaitingTransaction() }
    }

    /// Drops the waiting transactions, and performs the requests that waited for them.
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

    private func submit(_ number: Int64, _ write: Write, at key: TransactionKey, _ share: MemoryShare?) {
        host.submit(write, for: self) { session, outcome in
            withExtendedLifetime(share) {
                session.transacted(outcome, at: key)
                session.answer(number, outcome)
            }
        }
    }

    func transacted(_ outcome: WriteOutcome, at key: TransactionKey) {
        guard settings.transactionSlotMilliseconds > 0 else { return }
        if case .preconditionFailed = outcome {
            contended.insert(key)
            host.follow(context.transactionQueues.wasRefused(id, at: key), at: key)
        } else if contended.remove(key) != nil {
            host.follow(context.transactionQueues.leaves(id, key), at: key)
        }
    }

    /// Leaves all queues at the end of the session, so that other clients do not wait for it. Its waiting transactions
    /// are not executed; as they had no answer, clients may send them again.
    func leaveQueues() {
        for key in contended { host.follow(context.transactionQueues.leaves(id, key), at: key) }
        contended.removeAll()
    }
}
