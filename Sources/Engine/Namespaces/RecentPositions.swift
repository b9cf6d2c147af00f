import LogStore
import Synchronization

/// The recent log positions of this gateway's namespaces, which show how many entries the database has lost if its
/// history changes. Bounded: of older positions only their age is known.
final class RecentPositions: Sendable {
    private struct State {
        var ring: [(namespace: Int64, position: LogPosition)] = []
        var next = 0
    }
    private let state = Mutex(State())
    private static let capacity = 4_096

    func note(_ namespace: Int64, _ snapshot: Snapshot) {
        guard snapshot.batch != nil else { return }
        let entry = (namespace: namespace, position: snapshot.position)
        state.withLock { state in
            if state.ring.count < Self.capacity {
                state.ring.append(entry)
            } else {
                state.ring[state.next] = entry
                state.next = (state.next + 1) % Self.capacity
            }
        }
    }

    /// Returns the positions of one namespace, newest first. The batch of each is known.
    func of(_ namespace: Int64) -> [LogPosition] {
        let found = state.withLock { state -> [LogPosition] in
            let inOrder = state.ring[state.next...] + state.ring[..<state.next]
            return inOrder.filter { $0.namespace == namespace }.map(\.position)
        }
        return found.reversed()
    }
}
