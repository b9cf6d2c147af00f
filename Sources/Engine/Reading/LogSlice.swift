import LogStore
public import Tree

/// What of a log its reader wants to see.
public struct LogView: Sendable {
    public let namespace: Int64
    public let name: String
    /// Only what concerns it; the root for everything.
    public let path: Path
    /// Whether lines say who wrote.
    public let hasOrigins: Bool

    public init(namespace: Int64, name: String, path: Path, hasOrigins: Bool) {
        self.namespace = namespace
        self.name = name
        self.path = path
        self.hasOrigins = hasOrigins
    }
}

/// From where to where a log reaches.
public struct LogExtent: Sendable, Equatable {
    /// The last entry; 0 for an empty log.
    public let head: Int64
    /// The batch of the entry at the head; nil if it is not known, and for an empty log.
    public let headBatch: [UInt8]?
    /// The oldest entry that is retained; `head + 1` where none is.
    public let oldest: Int64

    public init(head: Int64, headBatch: [UInt8]?, oldest: Int64) {
        self.head = head
        self.headBatch = headBatch
        self.oldest = oldest
    }

    init(_ record: HistoryRecord) {
        // What stands for the batch of an empty log is the key of the ids of stream events, which no reader may learn.
        let batch = record.head == 0 ? nil : record.headBatch
        self.init(head: record.head, headBatch: batch, oldest: record.retainedFrom)
    }
}

/// Some lines of a log that follow one another.
public struct LogSlice: Sendable {
    /// JSON, without line ends.
    public internal(set) var lines: [[UInt8]] = []
    /// The place behind all that was looked at, lines or none.
    public internal(set) var end: LogPlace
    /// Whether the log ended there.
    public internal(set) var isAtEnd = false
    var byteCount = 0

    init(at place: LogPlace) { end = place }

    /// No lines, at the log's end.
    public init(emptyAt place: LogPlace) {
        end = place
        isAtEnd = true
    }
}

/// Why a log can't be read from a place on.
public enum LogReadError: Error, Sendable, Equatable {
    /// What follows the place was pruned.
    case pruned(oldest: Int64)
    /// The log has another history than the place is of, or has never come so far.
    case otherHistory(head: Int64)
    /// The entry that follows the place has lost a part, which only damage to the database explains. `next` is the place after the entry.
    case damaged(next: LogPlace)
    case engine(EngineError)
}
