/// Why something can't be done with a feed.
public enum FeedError: Error, Sendable, Equatable, CustomStringConvertible {
    case unknownFeed(FeedName)
    /// The caller's token is for another feed that had the name before.
    case notAdmitted(FeedName)
    /// The namespace is on its way to another database, or there already: whoever comes again finds its feeds where it is then.
    case moving(String)
    case pruned(wanted: Int64, oldest: Int64)
    case tooManyFeeds(Int)
    /// Messages of one can't be delivered by the other: their ids would mean other records.
    case differentPaths(String, String)

    public var description: String {
        switch self {
        case .unknownFeed(let name): "There is no feed \"\(name.name)\" in the database \"\(name.namespace)\"."
        case .notAdmitted(let name): "The token is not for this feed \"\(name.name)\"."
        case .moving(let namespace): "The namespace \"\(namespace)\" moves to another database. Try again later."
        case .pruned(let wanted, let oldest):
            "Entry \(wanted) is not in the log any more; the oldest is \(oldest). {\"seq\":\(oldest - 1)} begins with that one, \"snapshot\" with the tree as it is."
        case .tooManyFeeds(let most): "A database has at most \(most) feeds."
        case .differentPaths(let one, let other):
            "Feed \"\(other)\" has another path than \"\(one)\": it can't deliver its messages."
        }
    }
}
