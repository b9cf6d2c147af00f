/// A position in a namespace's log: after an entry.
///
/// All readers of the log use it, and all states that are made from the log. A position inside an entry is a type of its
/// reader that contains a `LogPosition`.
public struct LogPosition: Sendable, Hashable {
    /// The seq of the last entry before the position, or 0 at the beginning of the log.
    public var seq: Int64
    /// The batch of this entry, which distinguishes the log's history from others. Nil if unknown: only the seq is
    /// compared then.
    public var batch: [UInt8]?

    public init(seq: Int64, batch: [UInt8]? = nil) {
        self.seq = seq
        self.batch = batch
    }
}
