import Synchronization

/// What all loops of a server share: how many connections are open, how much memory their bodies take.
final class SharedBudget: Sendable {
    private let connections = Atomic<Int>(0)
    private let bodyBytes = Atomic<Int>(0)
    private let maxConnections: Int
    private let maxBodyBytes: Int

    init(maxConnections: Int, maxBodyBytes: Int) {
        self.maxConnections = maxConnections
        self.maxBodyBytes = maxBodyBytes
    }

    /// Takes a place for one connection; false (and nothing taken) where all are taken.
    func takeConnection() -> Bool {
        if connections.wrappingAdd(1, ordering: .relaxed).newValue <= maxConnections { return true }
        connections.wrappingSubtract(1, ordering: .relaxed)
        return false
    }

    func releaseConnection() {
        connections.wrappingSubtract(1, ordering: .relaxed)
    }

    /// Takes `count` bytes for a body; false (and nothing taken) where they are not there.
    func takeBody(_ count: Int) -> Bool {
        if bodyBytes.wrappingAdd(count, ordering: .relaxed).newValue <= maxBodyBytes { return true }
        bodyBytes.wrappingSubtract(count, ordering: .relaxed)
        return false
    }

    func releaseBody(_ count: Int) {
        bodyBytes.wrappingSubtract(count, ordering: .relaxed)
    }

    /// Bytes taken now, for tests that check nothing leaks.
    var bodyBytesTaken: Int { bodyBytes.load(ordering: .relaxed) }
}
