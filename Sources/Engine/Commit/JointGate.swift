import Runtime

/// Lets few transactions of several namespaces be under way at once: while these commit, more waits for the next ones, which are
/// larger and fewer for it. Who has waited longest comes in first.
///
/// Who takes long is not counted: others must not wait behind locks that are none of theirs.
final class JointGate: Sendable {
    private struct State: Sendable {
        /// When those who are inside came in, by monotonic nanoseconds.
        var inside: [Int: UInt64] = [:]
        /// Who waits, in the order in which they came.
        var waiting: [Int] = []
    }

    private let most: Int
    private let patience: UInt64
    private let state = Condition(State())

    /// - Parameters:
    ///   - most: how many may be inside.
    ///   - patienceMilliseconds: after how long one that is inside does not count any more, and nobody waits for longer.
    init(most: Int, patienceMilliseconds: Milliseconds) {
        self.most = max(1, most)
        patience = UInt64(max(0, patienceMilliseconds)) * 1_000_000
    }

    /// Waits until there is room, for no longer than the patience.
    ///
    /// - Parameter committer: who comes in, and is not inside.
    func enter(_ committer: Int) {
        let deadline = Clock.monotonicNanoseconds + patience
        state.withLock { $0.waiting.append(committer) }
        var isInside = false
        while !isInside {
            let wake = state.withLock { min(deadline, ends(of: $0).min() ?? deadline) }
            isInside = state.wait(untilNanoseconds: wake) { admit(committer, deadline, &$0) ? true : nil } ?? false
        }
        // The next one may have looked before this one was out of its way.
        if state.withLock({ !$0.waiting.isEmpty }) { state.broadcast { _ in } }
    }

    /// Nothing happens if the committer is not inside.
    func leave(_ committer: Int) {
        state.broadcast { $0.inside[committer] = nil }
    }

    /// How many wait.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    private func admit(_ committer: Int, _ deadline: UInt64, _ state: inout State) -> Bool {
        let hasRoom = state.waiting.first == committer && ends(of: state).count < most
        guard hasRoom || Clock.monotonicNanoseconds >= deadline else { return false }
        state.waiting.removeAll { $0 == committer }
        state.inside[committer] = Clock.monotonicNanoseconds
        return true
    }

    /// When those who count will count no more.
    private func ends(of state: State) -> [UInt64] {
        let now = Clock.monotonicNanoseconds
        return state.inside.values.map { $0 + patience }.filter { $0 > now }
    }
}
