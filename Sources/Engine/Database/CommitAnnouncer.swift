import Postgres
import Synchronization

/// The newest heads that this gateway has committed and not yet announced. Any thread.
///
/// PostgreSQL lets only one transaction at a time commit with an announcement, across all of its databases, and the
/// next one waits until that commit is on the disk. So the tail announces many batches at a time after they are
/// committed. If a gateway is killed in between, the others find its commits by their periodic check of the heads.
final class CommitAnnouncer: Sendable {
    private struct State: Sendable {
        var heads: [Int64: Int64] = [:]
        var reader: WakeHandle?
    }
    private let state = Mutex(State())

    /// Sets the handle that wakes the announcing thread.
    func wakes(_ reader: WakeHandle) { state.withLock { $0.reader = reader } }

    /// Wakes the announcing thread for another reason than a commit.
    func wakeReader() { state.withLock { $0.reader }?.wake() }

    /// Adds a committed batch. Never blocks.
    func add(_ namespace: Int64, head: Int64) {
        let reader = state.withLock { state -> WakeHandle? in
            // If the map is not empty, the reader has already been woken.
            let isFirst = state.heads.isEmpty
            state.heads[namespace] = head
            return isFirst ? state.reader : nil
        }
        reader?.wake()
    }

    /// Whether no head waits to be announced.
    var isEmpty: Bool { state.withLock { $0.heads.isEmpty } }

    /// Takes the heads to announce.
    func take() -> [Int64: Int64] {
        state.withLock { state in
            defer { state.heads = [:] }
            return state.heads
        }
    }

    /// Puts heads back that could not be announced. Newer heads that were added since are retained.
    func putBack(_ heads: [Int64: Int64]) {
        state.withLock { $0.heads.merge(heads) { newer, _ in newer } }
    }
}
