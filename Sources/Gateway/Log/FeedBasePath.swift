public import Tree

/// Says which part of a namespace's log who has a feed's token may read: all below the fixed keys with which the feed's pattern
/// begins. Calls back once, on any thread; nil where there is no such feed.
public typealias FeedBasePath =
    @Sendable (
        _ feed: String, _ namespace: String, _ completion: @escaping @Sendable (Path?) -> Void
    ) -> Void
