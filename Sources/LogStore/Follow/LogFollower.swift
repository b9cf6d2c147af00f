public import Postgres
import Runtime

/// The one way to read a namespace's log from a place on: a `FollowerMachine`, and the statements and waits that it asks for.
///
/// A value that belongs to its reader. It is tied to no connection, so that it goes on where it was on another one.
public struct LogFollower: Sendable {
    public let namespace: Int64
    private var machine: FollowerMachine

    /// - Parameters:
    ///   - cursor: what was read already.
    ///   - bound: the last entry that is wanted.
    ///   - change: sets what is not as usual.
    public init(
        _ namespace: Int64, at cursor: LogCursor, through bound: Int64 = .max,
        _ change: (inout FollowerMachine.Settings) -> Void = { _ in }
    ) {
        var settings = FollowerMachine.Settings()
        change(&settings)
        self.namespace = namespace
        machine = FollowerMachine(at: cursor, through: bound, settings: settings)
    }

    /// The last entry that was handed out.
    public var cursor: LogCursor { machine.cursor }

    /// Entries behind this one are not read. May change at any time.
    public var bound: Int64 {
        get { machine.bound }
        set { machine.bound = newValue }
    }

    /// Goes on from another place: the reader has loaded the state as of that entry.
    public mutating func restart(at cursor: LogCursor) { machine.restart(at: cursor) }

    /// The next event, for a follower that does not wait at the log's end.
    ///
    /// On an error the cursor is where it was, and the next call asks for the same page again, on whatever connection.
    public mutating func next(on connection: LogConnection) throws(LogStoreError) -> LogEvent {
        while true {
            switch machine.next() {
            case .take(let event): return event
            case .read(let request):
                let page = try connection.page(namespace, request)
                try machine.received(history: page.history, entries: page.entries)
            // At its end a follower that waits would use the other function.
            case .wait: return .end(head: nil)
            }
        }
    }

    /// The next event, for a follower that waits at the log's end, on a connection that listens to commits. Nil when it has
    /// waited: the caller may have something else to do before it calls again.
    public mutating func nextOrWait(
        on connection: LogConnection, wake: WakeHandle? = nil
    ) throws(LogStoreError) -> LogEvent? {
        while true {
            switch machine.next(at: Clock.monotonicMilliseconds) {
            case .take(let event): return event
            case .read(let request):
                let page = try connection.page(namespace, request)
                try machine.received(history: page.history, entries: page.entries)
            case .wait(let milliseconds):
                for announcement in try connection.waitForAnnouncements(
                    milliseconds: milliseconds, wake: wake)
                {
                    if case .commit(namespace, let head) = announcement { machine.told(head: head) }
                }
                return nil
            }
        }
    }
}
