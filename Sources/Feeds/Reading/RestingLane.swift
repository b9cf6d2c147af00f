import LogStore
import Runtime

/// A lane that has let go of its trees while its feeds have no room for more messages: they are made again once there is room. A value.
struct RestingLane: Sendable {
    /// How far a snapshot has been read.
    struct Snapshot: Sendable {
        /// The number of its next record.
        let index: Int64
        /// When the snapshot's entry was committed, in milliseconds since 1970.
        let time: Int64
    }

    private(set) var feeds: [LaneFeed]
    let cursor: LogCursor
    /// Nil between two entries.
    let snapshot: Snapshot?
    /// The tree is not made before then, in monotonic milliseconds.
    private(set) var restsUntil: Milliseconds = 0
    private var pause: Backoff?

    init(feeds: [LaneFeed], cursor: LogCursor, snapshot: Snapshot?) {
        self.feeds = feeds
        self.cursor = cursor
        self.snapshot = snapshot
    }

    /// Whether a feed has room again. The dispatcher says when one has that had none.
    var hasRoom: Bool { feeds.contains { $0.window.available() > 0 } }

    /// The connection was lost while the tree was made: the lane rests for a while, longer each time, so that other lanes have the thread.
    mutating func failed(at now: Milliseconds, _ settings: FeedSettings) {
        var pause =
            pause
            ?? Backoff(
                firstMilliseconds: Self.pauses * settings.firstRetryMilliseconds,
                longestMilliseconds: settings.maxRetryMilliseconds)
        restsUntil = now + pause.nextMilliseconds()
        self.pause = pause
    }

    /// The first pause, as a multiple of `firstRetryMilliseconds`.
    private static let pauses: Milliseconds = 10

    mutating func remove(_ claim: FeedClaim) { feeds.removeAll { $0.claim == claim } }
}
