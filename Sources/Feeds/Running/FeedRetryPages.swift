import LogStore
import Runtime

/// Says when more of the letters that are to be delivered once more are wanted: the dispatcher says so, the supervisor asks.
final class FeedRetryWish: Sendable {
    private let isWanted = MutexBox(false)

    func want() { isWanted.withLock { $0 = true } }

    /// Whether more were wanted since the last call.
    func take() -> Bool {
        isWanted.withLock { isWanted in
            defer { isWanted = false }
            return isWanted
        }
    }
}

/// Reads a feed's letters that are to be delivered once more, a page at a time: a replay may leave many.
struct FeedRetryPages {
    struct Page {
        let letters: [FeedLetter]
        /// Whether there may be more behind them.
        let hasMore: Bool
    }

    let wish = FeedRetryWish()
    private var last: FeedPosition?
    static let lettersAtOnce = 1_000

    /// The first page, whatever was read before.
    mutating func first(of feed: FeedRecord, _ connection: LogConnection) throws -> Page {
        last = nil
        _ = wish.take()
        return try next(of: feed, connection)
    }

    mutating func next(of feed: FeedRecord, _ connection: LogConnection) throws -> Page {
        let page = try connection.feedLetters(
            feed.namespaceID, feed.id, states: ["retry"], after: last.map { ($0.seq, $0.index, $0.isSnapshot) },
            limit: Self.lettersAtOnce)
        if let letter = page.last?.letter {
            last = FeedPosition(seq: letter.seq, index: letter.index, isSnapshot: letter.isSnapshot)
        }
        return Page(letters: page.compactMap { FeedLetter($0.letter) }, hasMore: page.count == Self.lettersAtOnce)
    }
}
