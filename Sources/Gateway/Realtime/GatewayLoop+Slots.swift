import Engine
import HTTPServer
import Tree

extension GatewayLoop {
    /// Does what follows from an event in a queue.
    func follow(_ outcome: TransactionQueue.Outcome, at place: TransactionKey) {
        if let notice = outcome.notice { gateway.engine.tellPeers(SlotNotice(notice, place).text) }
        guard let slot = outcome.next else { return }
        if slot.isRemote { return watch(slot, at: place, afterMilliseconds: patience) }
        // A session that is ending meanwhile leaves its queues by itself.
        gateway.sessions.link(of: slot.session)?.post { loop in
            guard let session = loop.sessions[slot.session] else { return }
            session.contended.insert(place)
            if session.waitingTransaction?.place == place { session.sendWaitingTransaction() }
            loop.watch(slot, at: place, afterMilliseconds: loop.patience)
        }
    }

    private var patience: Int64 { Int64(gateway.settings.transactionSlotMilliseconds) }

    /// Sees to it that a slot ends.
    private func watch(_ slot: TransactionQueue.Slot, at place: TransactionKey, afterMilliseconds delay: Int64) {
        _ = loop.schedule(afterMilliseconds: Int(delay)) { [weak self] in
            guard let self else { return }
            switch self.gateway.transactionQueues.check(slot, at: place, patience: self.patience) {
            case .over: break
            case .goesOn(let time): self.watch(slot, at: place, afterMilliseconds: time)
            case .expired(let outcome):
                self.sessions[slot.session]?.contended.remove(place)
                self.follow(outcome, at: place)
            }
        }
    }
}
