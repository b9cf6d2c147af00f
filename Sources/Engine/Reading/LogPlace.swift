/// A place between two lines of a namespace's log, from which a reader goes on.
public struct LogPlace: Sendable, Hashable {
    /// The last entry all of whose lines lie before.
    public var seq: Int64
    /// The batch that this entry came in, by which the log's history can be told from others; nil where it isn't known.
    public var batch: [UInt8]?
    /// Nil where the next line is an entry's first; else the place is inside the entry behind `seq`, which is in parts.
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
