public import Postgres
public import Runtime
import Synchronization

/// The connections to the database that some threads have, so that a thread which finds out that the database is
/// gone can tell the others, who wait for it in vain.
public final class OpenConnections: Sendable {
    private struct Entry: Sendable {
        weak let handle: PostgresCancelHandle?
    }
    private let entries = Mutex<[Entry]>([])

    public init() {}

    /// Counts a connection in; one that is closed leaves by itself.
    public func add(_ handle: PostgresCancelHandle) {
        entries.withLock { entries in
            entries.removeAll { $0.handle == nil }
            entries.append(Entry(handle: handle))
        }
    }

    /// Gives up the connections from which nothing has come since that monotonic millisecond: whoever waits for one of
    /// them stops waiting, and whoever has one at rest opens another when it needs one. Returns how many those were.
    @discardableResult
    public func abandonSilent(since time: Milliseconds) -> Int {
        abandon { $0.lastHeardMilliseconds < time }
    }

    /// Gives up all connections.
    @discardableResult
    public func abandonAll() -> Int { abandon { _ in true } }

    private func abandon(_ isMeant: (PostgresCancelHandle) -> Bool) -> Int {
        let handles = entries.withLock { $0.compactMap(\.handle) }.filter(isMeant)
        for handle in handles { handle.abandon() }
        return handles.count
    }
}
