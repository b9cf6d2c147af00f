import Rules
import Runtime
import Synchronization
import Tokens

/// Limits the number of concurrent readers of the log. A reader takes its seat before its first database query, and
/// keeps it until its last query is answered. Shared by all loops; any thread may use it.
///
/// Namespaces share the seats. Within a namespace, the tokens of each feed, the administrators and the viewers share
/// them, by the rule of `FairLedger`. An eighth of the seats is reserved for administrators of the whole gateway, which may also
/// take all other free seats.
final class LogSeats: Sendable {
    /// A kind of reader of a namespace's log.
    private enum Reader: Hashable, Sendable {
        case administrators
        case viewers
        case feed(String)
    }

    /// A seat, held until it is released.
    final class Seat: Sendable {
        private let release: @Sendable () -> Void

        fileprivate init(_ release: @escaping @Sendable () -> Void) { self.release = release }

        deinit { release() }
    }

    private struct State {
        var shared: FairLedger<String, Reader>
        var operators = 0
        var used: Int { shared.used + operators }
    }

    private let most: Int
    private let state: Mutex<State>

    /// - Parameter most: the number of seats.
    init(_ most: Int) {
        self.most = most
        state = Mutex(State(shared: FairLedger(capacity: most - max(1, most / 8))))
    }

    /// The number of taken seats.
    var used: Int { state.withLock { $0.used } }

    /// Takes a seat; returns nil if none is free for this caller now.
    func take(for identity: Identity, in namespace: String) -> Seat? {
        identity.mayOperate ? takeForOperator() : takeShared(Self.reader(identity), namespace)
    }

    private static func reader(_ identity: Identity) -> Reader {
        if identity.context.isViewer { return .viewers }
        if !identity.mayAdminister, let feed = identity.feed { return .feed(feed.feed.feed) }
        return .administrators
    }

    private func takeForOperator() -> Seat? {
        let isTaken = state.withLock { state in
            guard state.used < most else { return false }
            state.operators += 1
            return true
        }
        guard isTaken else { return nil }
        return seat { $0.operators -= 1 }
    }

    private func takeShared(_ reader: Reader, _ namespace: String) -> Seat? {
        let isTaken = state.withLock { state in
            state.used < most && state.shared.take(for: reader, of: namespace)
        }
        guard isTaken else { return nil }
        return seat { $0.shared.release(by: reader, of: namespace) }
    }

    private func seat(_ release: @escaping @Sendable (inout State) -> Void) -> Seat {
        Seat { [self] in state.withLock { release(&$0) } }
    }
}
