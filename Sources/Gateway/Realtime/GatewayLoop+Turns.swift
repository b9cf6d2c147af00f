import Engine
import HTTPServer
import Tree

extension GatewayLoop {
    /// Does what follows from an event in a line.
    func follow(_ outcome: TransactionLine.Outcome, at place: TransactionPlace) {
        if let notice = outcome.notice { gateway.engine.tellPeers(TurnNotice(notice, place).text) }
        guard let turn = outcome.next else { return }
        if turn.isGuest { return watch(turn, at: place, afterMilliseconds: patience) }
        // A session that is ending meanwhile leaves its lines by itself.
        gateway.sessions.link(of: turn.session)?.post { loop in
            guard let session = loop.sessions[turn.session] else { return }
            session.contended.insert(place)
            if session.waitingTransaction?.place == place { session.sendWaitingTransaction() }
            loop.watch(turn, at: place, afterMilliseconds: loop.patience)
        }
    }

    private var patience: Int64 { Int64(gateway.settings.transactionTurnMilliseconds) }

    /// Sees to it that a turn ends.
    private func watch(_ turn: TransactionLine.Turn, at place: TransactionPlace, afterMilliseconds delay: Int64) {
        _ = loop.schedule(afterMilliseconds: Int(delay)) { [weak self] in
            guard let self else { return }
            switch self.gateway.transactionLines.check(turn, at: place, patience: self.patience) {
            case .over: break
            case .goesOn(let time): self.watch(turn, at: place, afterMilliseconds: time)
            case .expired(let outcome):
                self.sessions[turn.session]?.contended.remove(place)
                self.follow(outcome, at: place)
            }
        }
    }
}
