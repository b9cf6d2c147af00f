import LogStore

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

    /// Whether a feed has room again. The dispatcher says when one has that had none.
    var hasRoom: Bool { feeds.contains { $0.window.available() > 0 } }

    mutating func remove(_ claim: FeedClaim) { feeds.removeAll { $0.claim == claim } }
}
