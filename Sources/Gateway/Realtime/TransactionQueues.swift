import Engine
import Runtime
import Synchronization
import Tree

/// A path for which clients contend.
struct TransactionKey: Hashable, Sendable {
    let namespace: NamespaceKey
    let path: Path
}

/// All queues of this gateway's clients: a queue lasts while somebody contends.
final class TransactionQueues: Sendable {
    private let queues = Mutex<[TransactionKey: TransactionQueue]>([:])

    /// See `TransactionQueue.arrives`.
    func arrives(_ session: String, at place: TransactionKey, mayWait: Bool) -> TransactionQueue.Arrival {
        queues.withLock { queues in
            queues[place]?.arrives(session, mayWait: mayWait, at: Clock.monotonicMilliseconds) ?? .isSent
        }
    }

    func sendsEarly(_ session: String, at place: TransactionKey) {
        queues.withLock { $0[place]?.sendsEarly(session) }
    }

    func wasRefused(_ session: String, at place: TransactionKey) -> TransactionQueue.Outcome {
        queues.withLock { queues in
            queues[place, default: TransactionQueue()].wasRefused(session, at: Clock.monotonicMilliseconds)
        }
    }

    /// Another gateway has said something about slots.
    func noticed(_ notice: SlotNotice, from gatewayID: String) -> TransactionQueue.Outcome {
        // No session's id has this form.
        let remote = "gateway \(gatewayID)"
        return switch notice.kind {
        case .asks:
            queues.withLock { queues in
                queues[notice.place, default: TransactionQueue()].asks(remote, at: Clock.monotonicMilliseconds)
            }
        case .isDone: leaves(remote, notice.place)
        }
    }

    func leaves(_ session: String, _ place: TransactionKey) -> TransactionQueue.Outcome {
        change(place) { $0.leaves(session, at: Clock.monotonicMilliseconds) } ?? TransactionQueue.Outcome()
    }

    func check(_ slot: TransactionQueue.Slot, at place: TransactionKey, patience: Int64) -> TransactionQueue.Check {
        change(place) { $0.check(slot, patience: patience, at: Clock.monotonicMilliseconds) } ?? .over
    }

    /// Changes a queue that may be empty afterwards.
    private func change<Result>(_ place: TransactionKey, _ body: (inout TransactionQueue) -> Result) -> Result? {
        queues.withLock { queues in
            guard let index = queues.index(forKey: place) else { return nil }
            let result = body(&queues.values[index])
            if queues.values[index].isEmpty { queues.remove(at: index) }
            return result
        }
    }
}
