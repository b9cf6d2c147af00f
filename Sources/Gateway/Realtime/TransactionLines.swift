import Runtime
import Synchronization
import Tree

/// A path for which clients contend.
struct TransactionPlace: Hashable, Sendable {
    let namespace: Int64
    let path: Path
}

/// All lines of this gateway's clients: a line lasts while somebody contends.
final class TransactionLines: Sendable {
    private let lines = Mutex<[TransactionPlace: TransactionLine]>([:])

    /// See `TransactionLine.arrives`.
    func arrives(_ session: String, at place: TransactionPlace, mayWait: Bool) -> Bool {
        lines.withLock { lines in
            lines[place]?.arrives(session, mayWait: mayWait, at: Clock.monotonicMilliseconds) ?? true
        }
    }

    func sendsEarly(_ session: String, at place: TransactionPlace) {
        lines.withLock { $0[place]?.sendsEarly(session) }
    }

    func wasRefused(_ session: String, at place: TransactionPlace) -> TransactionLine.Outcome {
        lines.withLock { lines in
            lines[place, default: TransactionLine()].wasRefused(session, at: Clock.monotonicMilliseconds)
        }
    }

    /// Another gateway has said something about turns.
    func noticed(_ notice: TurnNotice, from gatewayID: String) -> TransactionLine.Outcome {
        // No session's id has this form.
        let guest = "gateway \(gatewayID)"
        return switch notice.kind {
        case .asks:
            lines.withLock { lines in
                lines[notice.place, default: TransactionLine()].asks(guest, at: Clock.monotonicMilliseconds)
            }
        case .isDone: leaves(guest, notice.place)
        }
    }

    func leaves(_ session: String, _ place: TransactionPlace) -> TransactionLine.Outcome {
        change(place) { $0.leaves(session, at: Clock.monotonicMilliseconds) } ?? TransactionLine.Outcome()
    }

    func check(_ turn: TransactionLine.Turn, at place: TransactionPlace, patience: Int64) -> TransactionLine.Check {
        change(place) { $0.check(turn, patience: patience, at: Clock.monotonicMilliseconds) } ?? .over
    }

    /// Changes a line that may be empty afterwards.
    private func change<Result>(_ place: TransactionPlace, _ body: (inout TransactionLine) -> Result) -> Result? {
        lines.withLock { lines in
            guard let index = lines.index(forKey: place) else { return nil }
            let result = body(&lines.values[index])
            if lines.values[index].isEmpty { lines.remove(at: index) }
            return result
        }
    }
}
