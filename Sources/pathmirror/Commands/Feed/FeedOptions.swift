import Feeds
import LogStore

/// What the `feed` commands have in common.
enum FeedOptions {
    static let namespace = OptionSpecification(
        "ns", "NAME", "the namespace, unless the feed is named NS/NAME; default \"default\"")

    /// Connects, and closes the connection when `body` has ended.
    static func administer<Result>(
        _ arguments: ParsedArguments, _ console: Console, _ purpose: String, of subject: Database.Subject,
        _ body: (FeedAdministration, LogConnection) throws -> Result
    ) throws -> Result {
        let connection = try Database.connection(arguments, console, purpose, of: subject)
        defer { connection.close() }
        return try body(FeedAdministration(connection), connection)
    }

    /// The feed that the first argument and `--ns` name. The argument may have the namespace in it: `shop/orders`.
    static func name(_ arguments: ParsedArguments) throws(UsageError) -> FeedName {
        let parts = arguments.positionals[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            return FeedName(namespace: Database.namespaceName(arguments), name: arguments.positionals[0])
        }
        let name = FeedName(namespace: String(parts[0]), name: String(parts[1]))
        guard arguments["ns"] == nil || Database.namespaceName(arguments) == name.namespace else {
            throw UsageError("\(name) is not in the namespace that --ns names.")
        }
        return name
    }

    /// The definition as it may be shown, with all that was left out.
    static func shown(_ record: FeedRecord) throws -> FeedDefinition {
        try FeedDefinition.read(stored: record.definition, name: record.name)
    }
}
