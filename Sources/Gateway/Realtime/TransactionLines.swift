import Runtime
import Synchronization
import Tree

/// A path for which clients contend.
struct TransactionPlace: Hashable, Sendable {
    let namespace: Int64
    let path: Path
}

/// All lines of this gateway's clients: a line lasts while somebody contends. Other gateways have lines of their own, and
/// their first ones contend with the first ones here.
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

    func wasRefused(_ session: String, at place: TransactionPlace) -> TransactionLine.Turn? {
        lines.withLock { lines in
            lines[place, default: TransactionLine()].wasRefused(session, at: Clock.monotonicMilliseconds)
        }
    }

    func leaves(_ session: String, _ place: TransactionPlace) -> TransactionLine.Turn? {
        change(place) { $0.leaves(session, at: Clock.monotonicMilliseconds) } ?? nil
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
