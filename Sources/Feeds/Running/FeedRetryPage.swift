import LogStore

/// Some of a feed's letters that are to be delivered once more, in order: a replay may leave many, so they are taken in a page at a
/// time.
struct FeedRetryPage: Sendable {
    let letters: [FeedLetter]
    /// The position after which the page was read; nil for the first page.
    let after: FeedPosition?
    /// The place of the last that was read.
    let last: FeedPosition?
    /// Whether there may be more behind it.
    let hasMore: Bool
    /// What is stored of the feed, where that was asked for, too: with the first page.
    let stored: FeedMachine.Stored?
    static let lettersAtOnce = 1_000
    private static let bytesAtOnce: Int64 = 8 << 20

    /// The page of a feed that has no such letters.
    init() {
        letters = []
        after = nil
        last = nil
        hasMore = false
        stored = nil
    }

    /// Reads the page behind a place; the first where there is none.
    init(_ namespace: Int64, _ feed: Int64, after: FeedPosition?, _ connection: LogConnection) throws(LogStoreError) {
        self.after = after
        if after == nil {
            let (count, bytes) = try connection.storedFeedLetters(namespace, feed)
            stored = FeedMachine.Stored(count: count, bytes: bytes)
        } else {
            stored = nil
        }
        let rows = try connection.feedLetters(
            namespace, feed, states: ["retry"], after: after.map { ($0.seq, $0.index, $0.isSnapshot) },
            limit: Self.lettersAtOnce, mostBytes: Self.bytesAtOnce)
        letters = rows.compactMap { FeedLetter($0.letter) }
        last =
            rows.last.map {
                FeedPosition(seq: $0.letter.seq, index: $0.letter.index, isSnapshot: $0.letter.isSnapshot)
            } ?? after
        let bytes = rows.reduce(0) { $0 + Int64($1.letter.message?.count ?? 0) }
        hasMore = rows.count == Self.lettersAtOnce || bytes >= Self.bytesAtOnce
    }
}
