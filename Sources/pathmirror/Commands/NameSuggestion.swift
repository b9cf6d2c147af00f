import Feeds
import LogStore
import Mirrors

/// Which namespace, mirror or feed somebody may have meant who has named one that there is not.
enum NameSuggestion {
    /// ` Did you mean "shop"?`; empty where nothing is near, where the names can't be asked for, and for errors that are of
    /// something else.
    static func question(_ error: any Error, _ arguments: ParsedArguments, _ console: Console) -> String {
        // The error is told in any case: what goes wrong here has nothing to add to it.
        guard let (name, known) = try? candidates(error, arguments, console) else { return "" }
        if isOfNamespace(error), known.contains(name) {
            return " 'pathmirror namespace show \(name)' says where it is."
        }
        return NearestWord.question(NearestWord.all(name, among: known))
    }

    private static func isOfNamespace(_ error: any Error) -> Bool {
        switch error {
        case LogStoreError.unknownNamespace, MirrorError.log(.unknownNamespace), FeedError.unknownFeed: true
        default: false
        }
    }

    /// The name that there is not, and those that there are instead.
    private static func candidates(
        _ error: any Error, _ arguments: ParsedArguments, _ console: Console
    ) throws -> (name: String, known: [String])? {
        switch error {
        case LogStoreError.unknownNamespace(let name), MirrorError.log(.unknownNamespace(let name)):
            return (name, try Database.namespaceNames(arguments, console))
        case MirrorError.unknownMirror(let name, let namespace):
            let connection = try Database.connection(arguments, console, "mirror", of: .of(namespace))
            defer { connection.close() }
            let mirrors = try connection.catalogMirrors().filter { $0.namespace == namespace }
            return (name, mirrors.map(\.name))
        case FeedError.unknownFeed(let feed):
            let connection = try Database.connection(arguments, console, "feed", of: .of(feed.namespace))
            defer { connection.close() }
            guard try connection.namespace(named: feed.namespace) != nil else {
                return (feed.namespace, try Database.namespaceNames(arguments, console))
            }
            let feeds = try FeedAdministration(connection).allFeeds().filter { $0.namespace == feed.namespace }
            return (feed.name, feeds.map(\.name))
        default: return nil
        }
    }
}
