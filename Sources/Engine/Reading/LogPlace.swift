/// A place between two lines of a namespace's log, from which a reader goes on.
public struct LogPlace: Sendable, Hashable {
    /// The last entry all of whose lines lie before.
    public var seq: Int64
    /// The batch of the entry `seq`, or, for a place inside an entry, the batch of that entry. It tells the log's history from another one.
    /// Nil if it is not known.
    public var batch: [UInt8]?
    /// Nil if the next line is an entry's first. Otherwise the place is inside the entry after `seq`, which is in parts.
    public var inside: Inside?

    /// How far a reader is with the parts of an entry.
    public struct Inside: Sendable, Hashable {
        /// The next part.
        public var part: Int32
        /// How many of the parts before it have a line: those that concern the reader's path.
        public var lines: Int32

        public init(part: Int32, lines: Int32) {
            self.part = part
            self.lines = lines
        }
    }

    public init(seq: Int64, batch: [UInt8]? = nil, inside: Inside? = nil) {
        self.seq = seq
        self.batch = batch
        self.inside = inside
    }
}
