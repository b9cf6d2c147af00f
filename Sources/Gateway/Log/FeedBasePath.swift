public import Feeds
public import Tree

/// Says which part of a namespace's log who has a feed's token may read: all below the fixed keys with which the feed's pattern
/// begins. Calls back once, on any thread; with nil where there is no such feed, or the token is for another one of its name, and with an error where that can't be told now.
public typealias FeedBasePath =
    @Sendable (
        _ feed: FeedName, _ access: FeedAccess, _ completion: @escaping @Sendable (Result<Path?, any Error>) -> Void
    ) -> Void
