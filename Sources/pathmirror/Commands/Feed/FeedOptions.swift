import Feeds
import LogStore

/// What the `feed` commands have in common.
enum FeedOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")

    /// Connects, and closes the connection when `body` has ended.
    static func administer<Result>(
        _ arguments: ParsedArguments, _ purpose: String,
        _ body: (FeedAdministration, LogConnection) throws -> Result
    ) throws -> Result {
        let connection = try Database.connection(arguments, purpose)
        defer { connection.close() }
        return try body(FeedAdministration(connection), connection)
    }

    /// The feed that the first argument and `--ns` name.
    static func name(_ arguments: ParsedArguments) -> FeedName {
        FeedName(namespace: Database.namespaceName(arguments), name: arguments.positionals[0])
    }

    /// The definition as it may be shown, with all that was left out.
    static func shown(_ record: FeedRecord) throws -> FeedDefinition {
        try FeedDefinition.read(record.definition, name: record.name)
    }
}
