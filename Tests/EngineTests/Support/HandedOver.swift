import Runtime

@testable import Engine

/// The work that a namespace has handed over to the committers and to the large writer.
final class HandedOver: Sendable {
    private struct State: Sendable {
        var namespaces = 0
        var large: [UInt64] = []
    }
    private let state = Condition(State())

    func noteNamespace() { state.broadcast { $0.namespaces += 1 } }

    func note(_ item: WriteQueue.Waiting) { state.broadcast { $0.large.append(item.token) } }

    /// The number of times the namespace was handed over.
    var namespaces: Int { state.withLock { $0.namespaces } }
    /// The tokens of the large writes.
    var large: [UInt64] { state.withLock { $0.large } }
}
