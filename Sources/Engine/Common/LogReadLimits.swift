/// How much of a log is read at once.
public struct LogReadLimits: Sendable {
    /// The most entries of one slice.
    public var sliceEntries = 500
    /// About how many bytes of lines one slice has; it always has one line where there is any.
    public var sliceBytes = 1 << 20
    /// The most parts of an entry that are looked at for one slice, whether they have lines or not.
    public var sliceParts = 8

    public init() {}
}
