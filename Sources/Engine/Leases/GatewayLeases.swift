import Synchronization

/// Tells which lease this gateway has. Any thread may ask.
///
/// A gateway's lease says that it lives: while its row is in the database no other gateway executes the onDisconnect
/// operations that were saved under it. `LeasedConnection` keeps it.
public final class GatewayLeases: Sendable {
    private struct State {
        var current = LeaseNumber.first
        var onExpired: (@Sendable () -> Void)?
    }
    private let state = Mutex(State())

    init() {}

    /// The lease under which sessions begin now.
    public var current: LeaseNumber { state.withLock { $0.current } }

    /// Calls back when the lease has expired: other gateways execute what its sessions had asked for. The sessions must be
    /// closed, so that their clients ask for it anew. Called on the lease's thread, without a lock; must return soon.
    public func onExpired(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.onExpired = body }
    }

    /// From now on sessions begin under this lease.
    func changed(to number: LeaseNumber) {
        let body = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.current != number else { return nil }
            state.current = number
            return state.onExpired
        }
        body?()
    }
}
