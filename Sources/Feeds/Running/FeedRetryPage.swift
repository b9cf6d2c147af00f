import LogStore

/// A page of a feed's stored messages that are delivered again, in order. A replay may leave many retries, so they are
/// read one page at a time.
struct FeedRetryPage: Sendable {
    /// Facts about all stored messages of a feed, read together with the first page.
    struct Overview: Sendable {
        var stored = FeedMachine.Stored()
        /// The keys that dead letters stop.
        var blockedKeys: Set<FeedKey> = []
        /// The last retry of each key that has retries after the page, or nil if there are too many such keys.
        var lastOfKeys: [FeedKey: FeedPosition]? = [:]
    }

    var failedMessages: [FailedMessage] = []
    /// The position after which the page was read, or nil for the first page.
    var after: FeedPosition?
    /// The position of the last retry that was read.
    var last: FeedPosition?
    /// Whether there may be more retries after the page.
    var hasMore = false
    /// Nil unless this is the first page.
    var overview: Overview?
    static let failedMessagesAtOnce = 1_000
    fileprivate static let bytesAtOnce: Int64 = 8 << 20
    /// Only a replay can produce retries of more keys than a feed may have dead letters. New messages of all keys then wait.
    fileprivate static let mostKeys = 100_000

    /// Returns the retries that remain to be read after the page.
    ///
    /// - Parameter former: The retries that remained before the page.
    func unread(after former: FeedMachine.UnreadRetries) -> FeedMachine.UnreadRetries {
        var unread = overview.map { FeedMachine.UnreadRetries(last: $0.lastOfKeys) } ?? former
        unread.read(to: last, hasMore: hasMore)
        return unread
    }
}

extension FeedRetryPage {
    /// Reads the page after a position, or the first page if the position is nil. Before the first page, the database sets aside
    /// messages of keys that have stopped since, and revives those of keys that have not.
    ///
    /// - Parameter stopsKeys: Whether dead letters stop their keys.
    init(
        _ namespace: Int64, _ feed: Int64, after: FeedPosition?, stopsKeys: Bool, _ connection: LogConnection
    ) throws(LogStoreError) {
        var overview = Overview()
        if after == nil {
            try connection.reviveFailedMessages(namespace, feed)
            if stopsKeys {
                try connection.setAsideFailedMessages(namespace, feed)
                // This must be read before the page: an administrator may release a key in the meantime, and its messages
                // would not be in the page.
                overview.blockedKeys = Set(try connection.blockedFeedKeys(namespace, feed).map { FeedKey($0) })
            }
            let (count, bytes) = try connection.storedFailedMessages(namespace, feed)
            overview.stored = FeedMachine.Stored(count: count, bytes: bytes)
        }
        let rows = try connection.failedMessages(
            namespace, feed, states: ["retry"], after: after,
            limit: Self.failedMessagesAtOnce, mostBytes: Self.bytesAtOnce)
        let end = rows.last?.failedMessage
        let bytes = rows.reduce(0) { $0 + Int64($1.failedMessage.message?.count ?? 0) }
        let hasMore = rows.count == Self.failedMessagesAtOnce || bytes >= Self.bytesAtOnce
        if after == nil, stopsKeys, hasMore, let end {
            let keys = try connection.retriedFeedKeys(
                namespace, feed, after: end.position,
                limit: Self.mostKeys + 1)
            overview.lastOfKeys = keys.count > Self.mostKeys ? nil : Self.positions(keys)
        }
        self.init(
            failedMessages: rows.compactMap { FailedMessage($0.failedMessage) }, after: after,
            last: end?.position ?? after,
            hasMore: hasMore, overview: after == nil ? overview : nil)
    }

    private static func positions(_ keys: [(key: String, last: FeedPosition)]) -> [FeedKey: FeedPosition] {
        var positions: [FeedKey: FeedPosition] = [:]
        for (key, last) in keys {
            positions[FeedKey(key)] = last
        }
        return positions
    }
}

/// A request for a page of retries.
struct FeedRetryRequest: Sendable {
    let claim: FeedClaim
    /// The position after which the page begins, or nil for the first page.
    let after: FeedPosition?
    /// Whether the feed's dead letters stop their keys.
    let stopsKeys: Bool
}
