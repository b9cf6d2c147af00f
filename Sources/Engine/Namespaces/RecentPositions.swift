import Synchronization

/// The recent log positions of this gateway's namespaces, which show how many entries the database has lost if its
/// history changes. Bounded: of older positions only their age is known.
final class RecentPositions: Sendable {
    struct Position: Sendable {
        let seq: Int64
        let batch: [UInt8]
    }

    private struct State {
        var ring: [(namespace: Int64, position: Position)] = []
        var next = 0
    }
    private let state = Mutex(State())
    private static let capacity = 4_096

    func note(_ namespace: Int64, _ snapshot: Snapshot) {
        guard let batch = snapshot.batch else { return }
        let entry = (namespace: namespace, position: Position(seq: snapshot.seq, batch: batch))
        state.withLock { state in
            if state.ring.count < Self.capacity {
                state.ring.append(entry)
            } else {
                state.ring[state.next] = entry
                state.next = (state.next + 1) % Self.capacity
            }
        }
    }

    /// Returns the positions of one namespace, newest first.
    func of(_ namespace: Int64) -> [Position] {
        let found = state.withLock { state -> [Position] in
            let inOrder = state.ring[state.next...] + state.ring[..<state.next]
            return inOrder.filter { $0.namespace == namespace }.map(\.position)
        }
        return found.reversed()
    }
}
