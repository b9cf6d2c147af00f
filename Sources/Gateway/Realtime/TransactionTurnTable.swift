import Engine
import HTTPServer
import Placement
import Runtime
import Synchronization
import Tree

/// A path for which clients contend.
struct TransactionKey: Hashable, Sendable {
    let namespace: NamespaceKey
    let path: Path
}

/// All queues of this gateway's clients. A queue exists as long as clients contend.
final class TransactionTurnTable: Sendable {
    private let queues = Mutex<[TransactionKey: TransactionTurns]>([:])

    /// See `TransactionTurns.arrives`.
    func arrives(_ session: String, at key: TransactionKey, mayWait: Bool) -> TransactionTurns.Arrival {
        queues.withLock { queues in
            queues[key]?.arrives(session, mayWait: mayWait, at: Clock.monotonicMilliseconds) ?? .isSent
        }
    }

    func sendsEarly(_ session: String, at key: TransactionKey) {
        queues.withLock { $0[key]?.sendsEarly(session) }
    }

    func wasRefused(_ session: String, at key: TransactionKey) -> TransactionTurns.Outcome {
        queues.withLock { queues in
            queues[key, default: TransactionTurns()].wasRefused(session, at: Clock.monotonicMilliseconds)
        }
    }

    /// Handles another gateway's notification about slots.
    func noticed(_ notice: SlotNotice, from gatewayID: String) -> TransactionTurns.Outcome {
        // A session id never has this form.
        let remote = "gateway \(gatewayID)"
        return switch notice.kind {
        case .asks:
            queues.withLock { queues in
                queues[notice.key, default: TransactionTurns()].asks(remote, at: Clock.monotonicMilliseconds)
            }
        case .isDone: leaves(remote, notice.key)
        }
    }

    func leaves(_ session: String, _ key: TransactionKey) -> TransactionTurns.Outcome {
        change(key) { $0.leaves(session, at: Clock.monotonicMilliseconds) } ?? TransactionTurns.Outcome()
    }

    func check(_ slot: TransactionTurns.Slot, at key: TransactionKey, patience: Int64) -> TransactionTurns.Check {
        change(key) { $0.check(slot, patience: patience, at: Clock.monotonicMilliseconds) } ?? .over
    }

    /// Changes a queue, and removes it if it is empty afterwards.
    private func change<Result>(_ key: TransactionKey, _ body: (inout TransactionTurns) -> Result) -> Result? {
        queues.withLock { queues in
            guard let index = queues.index(forKey: key) else { return nil }
            let result = body(&queues.values[index])
            if queues.values[index].isEmpty { queues.remove(at: index) }
            return result
        }
    }
}

/// Executes the outcomes of the queues of transactions: notifies other gateways, begins slots, and ends slots that take
/// too long. One for each loop; belongs to its thread.
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

    /// Executes the outcome of an event in a queue.
    func follow(_ outcome: TransactionTurns.Outcome, at key: TransactionKey) {
        if let notice = outcome.notice {
            context.databases[key.namespace.database].engine.notifyPeers(SlotNotice(notice, key).text)
        }
        guard let slot = outcome.next else { return }
        if slot.isRemote { return watch(slot, at: key) }
        // A session that is ending leaves its queues itself.
        context.directory.sessionLoop(of: slot.session)?.post(to: slot.session) { session in
            session.contended.insert(key)
            if session.waitingTransaction?.key == key { session.sendWaitingTransaction() }
            session.host.watch(slot, at: key)
        }
    }

    /// Watches a slot, and ends it if its session is idle for too long.
    func watch(_ slot: TransactionTurns.Slot, at key: TransactionKey) { watch(slot, at: key, after: patience) }

    private func watch(_ slot: TransactionTurns.Slot, at key: TransactionKey, after delay: Milliseconds) {
        _ = loop.schedule(afterMilliseconds: Milliseconds(delay)) { [weak self] in
            guard let self else { return }
            switch self.context.transactionQueues.check(slot, at: key, patience: self.patience) {
            case .over: break
            case .continues(let time): self.watch(slot, at: key, after: time)
            case .expired(let outcome):
                self.sessions[slot.session]?.contended.remove(key)
                self.follow(outcome, at: key)
            }
        }
    }
}

/// A notification between gateways about slots: `turn asks|done NAMESPACE PATH`.
struct SlotNotice: Equatable {
    let kind: TransactionTurns.Notice
    let key: TransactionKey

    init(_ kind: TransactionTurns.Notice, _ key: TransactionKey) {
        self.kind = kind
        self.key = key
    }

    /// Parses a notification; returns nil for any other text.
    ///
    /// - Parameter database: the database that delivered the text.
    init?(_ text: String, in database: Int) {
        let parts = text.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "turn", let namespace = Int64(parts[2]) else { return nil }
        switch parts[1] {
        case "asks": kind = .asks
        case "done": kind = .isDone
        default: return nil
        }
        key = TransactionKey(
            namespace: NamespaceKey(database: database, id: namespace), path: Path(splitting: parts[3]))
    }

    var text: String {
        let verb =
            switch kind {
            case .asks: "asks"
            case .isDone: "done"
            }
        return "turn \(verb) \(key.namespace.id) \(key.path)"
    }
}
