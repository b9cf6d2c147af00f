/// How fast entries come. Pure.
struct FeedPace: Sendable {
    /// How many came in the last tenth of a second.
    private(set) var entries: Int64 = 0
    /// Where and when the present tenth began.
    private var seq: Int64 = 0
    private var time: Int64 = 0

    /// - Parameter now: in monotonic milliseconds.
    mutating func measure(_ last: Int64, at now: Int64) {
        guard now - time >= 100 else { return }
        // After a pause the pace is not known; then the first messages wait until they are written down.
        entries = now - time < 400 ? (last - seq) * 100 / (now - time) : 0
        seq = last
        time = now
    }
}
