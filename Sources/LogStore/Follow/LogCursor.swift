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
