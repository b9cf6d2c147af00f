import Engine
import HTTPServer
import Placement
import Runtime

/// Does what the queues of transactions say: tells other gateways, begins slots, and ends those that take too long. One
/// for each loop; belongs to its thread.
final class TransactionSlots {
    private let context: RealtimeContext
    private let loop: EventLoop
    private let sessions: SessionTable

    init(_ context: RealtimeContext, _ loop: EventLoop, _ sessions: SessionTable) {
        self.context = context
        self.loop = loop
        self.sessions = sessions
    }

    private var patience: Milliseconds { Milliseconds(context.settings.transactionSlotMilliseconds) }

    /// Does what follows from an event in a queue.
    func follow(_ outcome: TransactionQueue.Outcome, at key: TransactionKey) {
        if let notice = outcome.notice {
            context.databases[key.namespace.database].engine.tellPeers(SlotNotice(notice, key).text)
        }
        guard let slot = outcome.next else { return }
        if slot.isRemote { return watch(slot, at: key) }
        // A session that is ending meanwhile leaves its queues by itself.
        context.directory.home(of: slot.session)?.post(to: slot.session) { session in
            session.contended.insert(key)
            if session.waitingTransaction?.place == key { session.sendWaitingTransaction() }
            session.host.watch(slot, at: key)
        }
    }

    /// Sees to it that a slot ends.
    func watch(_ slot: TransactionQueue.Slot, at key: TransactionKey) { watch(slot, at: key, after: patience) }

    private func watch(_ slot: TransactionQueue.Slot, at key: TransactionKey, after delay: Milliseconds) {
        _ = loop.schedule(afterMilliseconds: Milliseconds(delay)) { [weak self] in
            guard let self else { return }
            switch self.context.transactionQueues.check(slot, at: key, patience: self.patience) {
            case .over: break
            case .goesOn(let time): self.watch(slot, at: key, after: time)
            case .expired(let outcome):
                self.sessions[slot.session]?.contended.remove(key)
                self.follow(outcome, at: key)
            }
        }
    }
}
