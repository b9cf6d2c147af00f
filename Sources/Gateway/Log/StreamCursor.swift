import Runtime

/// The cursor of the protocol of durable streams: a number that grows with the time, so that caches between do not answer
/// one long poll with what they kept of the last one.
enum StreamCursor {
    private static let intervalMilliseconds: Milliseconds = 20_000
    /// 2024-10-09T00:00:00Z
    private static let epochMilliseconds: Milliseconds = 1_728_432_000_000
    /// An hour.
    private static let mostJitter: Int64 = 180

    /// - Parameters:
    ///   - shown: the one that the client had from its last answer. The next is always larger.
    ///   - now: milliseconds since 1970.
    static func next(
        after shown: Int64?, now: Milliseconds = Clock.unixMilliseconds,
        jitter: Int64 = .random(in: 1...mostJitter)
    ) -> Int64 {
        let current = max(0, (now - epochMilliseconds) / intervalMilliseconds)
        // A number that nobody was given could not be outdone.
        guard let shown, shown >= current, shown <= .max - mostJitter else { return current }
        return shown + max(1, jitter)
    }
}
