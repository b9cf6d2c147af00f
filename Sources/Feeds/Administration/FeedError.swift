/// Why something can't be done with a feed.
public enum FeedError: Error, Sendable, Equatable, CustomStringConvertible {
    case unknownFeed(FeedName)
    case pruned(wanted: Int64, oldest: Int64)
    case tooManyFeeds(Int)

    public var description: String {
        switch self {
        case .unknownFeed(let name): "There is no feed \"\(name.name)\" in the database \"\(name.namespace)\"."
        case .pruned(let wanted, let oldest):
            "Entry \(wanted) is not in the log any more; the oldest is \(oldest). Start there, or with a snapshot."
        case .tooManyFeeds(let most): "A database has at most \(most) feeds."
        }
    }
}
