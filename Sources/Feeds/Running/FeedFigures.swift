public import LogStore

/// How a feed of this gateway fares, as metrics tell it.
public struct FeedFigures: Sendable, Equatable {
    public let feed: FeedName
    /// What the database knew some seconds ago.
    public let status: FeedStatusRecord
    /// What is known here; nil where the feed is broken.
    public let report: FeedReport?
}
