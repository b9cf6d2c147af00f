import Runtime
import Synchronization

/// This gateway's right to work feeds: its row of `feed_worker`, and how lately that was confirmed. Any thread may ask.
///
/// Others take a worker for dead when its beats have stood still for some seconds by their own clocks. So a worker hands out nothing when
/// its last confirmed beat is older than a part of that, by its own clock: also when it was frozen meanwhile.
final class FeedLease: Sendable {
    private struct State {
        var worker: [UInt8]?
        var freshUntil: Int64 = 0
    }
    private let state = Mutex(State())

    /// The worker's id, while it has one.
    var worker: [UInt8]? { state.withLock { $0.worker } }

    /// Whether messages may be handed out now.
    func isFresh(at now: Int64) -> Bool { state.withLock { $0.worker != nil && now < $0.freshUntil } }

    /// The database has confirmed the worker's row.
    ///
    /// - Parameter time: until when that is good, counted from when it was asked.
    func confirmed(_ worker: [UInt8], until time: Int64) {
        state.withLock { $0 = State(worker: worker, freshUntil: time) }
    }

    /// The row is gone.
    func lost() { state.withLock { $0 = State() } }
}
