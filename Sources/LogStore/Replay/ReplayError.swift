/// An error of a replay, a snapshot or a prune.
public enum ReplayError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Neither the log nor a snapshot reaches back to `seq`.
    case notRetained(seq: Int64, oldest: Int64)
    case beyondHead(seq: Int64, head: Int64)
    /// The text has no known form of a position.
    case badPosition(String)
    case beforeTheLog(time: String, oldest: String)
    /// A line in a file of entries is invalid.
    case badLine(Int, reason: String)
    /// The log was pruned while it was being read.
    case pruned(seq: Int64)
    case noSnapshot(seq: Int64)
    /// The namespace into which a tree is to be loaded contains data.
    case notEmpty(namespace: String, head: Int64)
    /// PostgreSQL's clock and this machine's differ too much. Negative if PostgreSQL's clock is late.
    case clocksDiffer(aheadSeconds: Int64)
    /// PostgreSQL's clock is before the time of the newest entry.
    case clockBehindLog(seconds: Int64)

    public var description: String {
        switch self {
        case .notRetained(let seq, let oldest):
            "The tree at seq \(seq) can't be rebuilt any more: the log and the snapshots reach back only to the tree at seq \(oldest)."
        case .beyondHead(let seq, let head): "There is no seq \(seq) yet: the head is \(head)."
        case .badPosition(let text):
            "\"\(text)\" is neither a seq nor a time: give a whole number, \"head\", a time such as 2026-01-31T12:00:00Z, or how long ago, such as 1h or 2d."
        case .beforeTheLog(let time, let oldest):
            "Nothing is retained from \(time): the retained log begins at \(oldest)."
        case .badLine(let line, let reason): "Line \(line): \(reason)."
        case .pruned(let seq): "The log was pruned during the read: entry \(seq) was removed. Try again."
        case .noSnapshot(let seq): "There is no snapshot at seq \(seq)."
        case .notEmpty(let name, let head): "Namespace \"\(name)\" is not new: its head is \(head)."
        case .clocksDiffer(let seconds):
            "PostgreSQL's clock is \(seconds.magnitude) s \(seconds < 0 ? "behind" : "ahead of") this machine's, so the age of entries is unknown. \(Self.clockAdvice)"
        case .clockBehindLog(let seconds):
            "PostgreSQL's clock is \(seconds) s behind the time of the newest entry: the clock was set back. \(Self.clockAdvice)"
        }
    }

    private static let clockAdvice =
        "Nothing was dropped. Set the clocks right, or keep a number of entries (--keep '100000 entries'), or rely on PostgreSQL's clock with --trust-clock."
}
