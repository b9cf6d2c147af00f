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
