import Postgres
import Synchronization

/// The newest heads that this gateway has committed and not announced yet. Any thread.
///
/// PostgreSQL lets one transaction at a time commit that announces something, in all of its databases, and the next one waits until that is on the disk. So
/// batches are announced when they are committed, by the tail, many at a time. What a gateway that is killed in between has not announced, the others find
/// by looking at the heads, as they do every so often.
final class CommitNews: Sendable {
    private struct State: Sendable {
        var heads: [Int64: Int64] = [:]
        var reader: WakeHandle?
    }
    private let state = Mutex(State())

    /// Whoever announces is woken by this.
    func wakes(_ reader: WakeHandle) { state.withLock { $0.reader = reader } }

    /// Wakes whoever announces, for another reason.
    func wakeReader() { state.withLock { $0.reader }?.wake() }

    /// A batch is committed. Never blocks.
    func add(_ namespace: Int64, head: Int64) {
        let reader = state.withLock { state -> WakeHandle? in
            // Where something waits already, the reader has been woken.
            let isFirst = state.heads.isEmpty
            state.heads[namespace] = head
            return isFirst ? state.reader : nil
        }
        reader?.wake()
    }

    /// Whether there is nothing to be announced.
    var isEmpty: Bool { state.withLock { $0.heads.isEmpty } }

    /// What is to be announced now.
    func take() -> [Int64: Int64] {
        state.withLock { state in
            defer { state.heads = [:] }
            return state.heads
        }
    }

    /// These could not be announced. Newer heads that have come meanwhile stand.
    func putBack(_ heads: [Int64: Int64]) {
        state.withLock { $0.heads.merge(heads) { newer, _ in newer } }
    }
}
