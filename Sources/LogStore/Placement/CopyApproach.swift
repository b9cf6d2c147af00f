/// Decides when a copy has come near enough to its source to hold writers up: they then stand for about as long as the last
/// round took. Pure.
struct CopyApproach {
    /// A round that brings fewer entries, or takes no longer, is the last one.
    private static let fewEntries: Int64 = 200
    private static let shortMilliseconds: Int64 = 100
    /// A round with many entries that takes longer is never the last one, and the first round isn't either.
    private static let longMilliseconds: Int64 = 1_000

    private var lastMilliseconds = Int64.max

    /// Whether the round that has just ended was the last one. As long as each takes less than three quarters of the one before,
    /// another one is worth it.
    mutating func isNear(entries: Int64, milliseconds: Int64) -> Bool {
        defer { lastMilliseconds = milliseconds }
        if milliseconds < Self.shortMilliseconds { return true }
        let isLong = milliseconds >= Self.longMilliseconds
        // Behind a long first round, which copied the whole tree, there may be more.
        if entries < Self.fewEntries { return !isLong || lastMilliseconds < .max }
        return !isLong && milliseconds >= lastMilliseconds / 4 * 3
    }
}
