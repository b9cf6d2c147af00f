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

/// What a reader of the log is told next. The follower's cursor is behind the event already.
public enum LogEvent: Sendable {
    /// Entries that follow one another, and the cursor, without a gap.
    case entries([LoggedEntry])
    /// An entry whose changes are in parts: an import, or a large write. `LogConnection.forEachPart` reads them.
    case bulk(LoggedEntry)
    /// An entry that brought security rules. `LogConnection.rules(_:at:)` reads them.
    case rules(LoggedEntry)
    /// Entries that the log does not have, mostly because they were pruned; the state that they lead to is in the tree only.
    /// The range is empty where no entry is missing but nobody knows any more whether the log goes on from the cursor. `read`
    /// is what the log has behind them. A follower that reports gaps goes on with it; another one has to be told by
    /// `restart(at:)` where to go on.
    case missing(Range<Int64>, read: [LoggedEntry])
    /// The log has another history than the cursor is of. Nil where the namespace is gone. `restart(at:)` goes on elsewhere.
    case takenBack(HistoryRecord?)
    /// There is nothing more for now, or up to the follower's bound. The head is told where history is checked.
    case end(head: Int64?)
}

/// How far somebody has read a namespace's log.
public struct LogCursor: Sendable, Equatable {
    /// The last entry that was read; 0 where none was.
    public var seq: Int64
    /// The batch that this entry came in, by which the log's history can be told from others. Nil where it is not known; then
    /// only the number is compared.
    public var batch: [UInt8]?

    /// A place in the log.
    public init(seq: Int64, batch: [UInt8]? = nil) {
        self.seq = seq
        self.batch = batch
    }
}
