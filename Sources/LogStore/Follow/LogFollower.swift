public import Postgres
import Runtime

/// Reads a namespace's log from a position on: a `FollowerMachine` with the statements and waits that it requests. All
/// readers of the log use it.
///
/// A value that belongs to its reader. It is not tied to a connection and can continue on another one.
public struct LogFollower: Sendable {
    public let namespace: Int64
    private var machine: FollowerMachine

    /// - Parameters:
    ///   - position: the last entry that the reader has already.
    ///   - bound: the last entry to read.
    ///   - change: changes the default settings.
    public init(
        _ namespace: Int64, at position: LogPosition, through bound: Int64 = .max,
        _ change: (inout FollowerMachine.Settings) -> Void = { _ in }
    ) {
        var settings = FollowerMachine.Settings()
        change(&settings)
        self.namespace = namespace
        machine = FollowerMachine(at: position, through: bound, settings: settings)
    }

    /// The last entry that was delivered.
    public var position: LogPosition { machine.position }

    /// The last entry to read. May change at any time.
    public var bound: Int64 {
        get { machine.bound }
        set { machine.bound = newValue }
    }

    /// Continues from another position, after the reader has loaded the state at that entry.
    public mutating func restart(at position: LogPosition) { machine.restart(at: position) }

    /// Returns the next event, for a follower that does not wait at the end of the log.
    ///
    /// On an error the position does not move, and the next call requests the page again, on any connection.
    public mutating func next(on connection: LogConnection) throws(LogStoreError) -> LogEvent {
        while true {
            switch machine.next() {
            case .take(let event): return event
            case .read(let request):
                let page = try connection.page(namespace, request)
                try machine.received(history: page.history, entries: page.entries)
            // Followers that wait at the end call `nextOrWait` instead.
            case .wait: return .end(head: nil)
            }
        }
    }

    /// Returns the next event, for a follower that waits at the end of the log. The connection must listen to commits.
    /// Returns nil after a wait, so that the caller can do other work before it calls again.
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
                    if case .commit(namespace, let head) = announcement { machine.announced(head: head) }
                }
                return nil
            }
        }
    }
}

/// An event of a log reader. The follower's position has already passed the event.
public enum LogEvent: Sendable {
    /// Entries that follow the position and one another without a gap.
    case entries([LoggedEntry])
    /// An entry with parts: an import or a large write. `LogConnection.forEachPart` reads the parts.
    case bulk(LoggedEntry)
    /// An entry that sets security rules. `LogConnection.rules(_:at:)` reads the rules.
    case rules(LoggedEntry)
    /// Entries that the log does not contain, usually because they were pruned. Their result is only in the tree.
    /// The range is empty if no entry is missing but it is unknown whether the log continues from the position. `read`
    /// contains the entries after the gap. A follower that reports gaps continues with them; another follower needs a
    /// call of `restart(at:)`.
    case missing(Range<Int64>, read: [LoggedEntry])
    /// The log has another history than the position. Nil if the namespace does not exist.
    /// Call `restart(at:)` to continue elsewhere.
    case rolledBack(HistoryRecord?)
    /// The end of the log, or of the follower's range, is reached. The head is reported if history is checked.
    case end(head: Int64?)
}
