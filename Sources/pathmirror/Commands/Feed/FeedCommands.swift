import Feeds
import LogStore

struct FeedListCommand: Command {
    static let specification = CommandSpecification(
        "feed ls", "lists the feeds",
        options: [.init("ns", "NAME", "only those of this namespace; default all"), .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try FeedOptions.administer(arguments, console, "feed ls", of: .namespaceIfGiven) { administration, connection in
            let records =
                try arguments["ns"] == nil
                ? administration.allFeeds()
                : administration.feeds(of: try DatabaseLocator.namespace(arguments, connection).name)
            var table = TextTable(["NAMESPACE", "NAME", "PATH"])
            for record in records {
                let definition = try FeedOptions.shown(record)
                guard arguments.has("json") else {
                    table.add(record.namespace, record.name, "\(definition.pattern)")
                    continue
                }
                console.write(
                    JSONOutput.object([
                        "namespace": .text(record.namespace), "name": .text(record.name),
                        "definition": .raw(definition.json(as: .shown)),
                    ]).line)
            }
            table.write(to: console)
        }
    }
}

struct FeedShowCommand: Command {
    static let specification = CommandSpecification(
        "feed show", "shows a feed's definition with all defaults, and its figures",
        positionals: ["NAME"], options: [FeedOptions.namespace, .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try FeedOptions.name(arguments)
        try FeedOptions.administer(arguments, console, "feed show", of: .of(name.namespace)) { administration, _ in
            let definition = try FeedOptions.shown(try administration.feed(name)).json(as: .shown)
            let status = try administration.status(name)
            guard !arguments.has("json") else {
                return console.write(
                    JSONOutput.object([
                        "namespace": .text(name.namespace), "name": .text(name.name), "definition": .raw(definition),
                        "status": FeedStatusCommand.json(name, status),
                    ]).line)
            }
            console.write(FeedStatusCommand.line(name, status))
            console.write(String(decoding: definition, as: UTF8.self))
        }
    }
}

struct FeedRemoveCommand: Command {
    static let specification = CommandSpecification(
        "feed rm", "removes a feed with its position in the log and its dead letters", positionals: ["NAME"],
        options: [FeedOptions.namespace, Confirmation.option] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try FeedOptions.name(arguments)
        try FeedOptions.administer(arguments, console, "feed rm", of: .of(name.namespace)) { administration, _ in
            _ = try administration.feed(name)
            try Confirmation.require(
                "Remove \(name.name) with its position in the log and its dead letters?",
                "Add --yes to remove it without being asked.", arguments, console)
            try administration.remove(name)
        }
    }
}

/// Functions shared by the `feed` commands.
enum FeedOptions {
    static let namespace = OptionSpecification(
        "ns", "NAME", "the namespace, unless the feed is named NS/NAME; default \"default\"")

    /// Connects, runs `body`, and closes the connection.
    static func administer<Result>(
        _ arguments: ParsedArguments, _ console: Console, _ purpose: String, of subject: DatabaseLocator.Subject,
        _ body: (FeedAdministration, LogConnection) throws -> Result
    ) throws -> Result {
        let connection = try DatabaseLocator.connection(arguments, console, purpose, of: subject)
        defer { connection.close() }
        return try body(FeedAdministration(connection), connection)
    }

    /// The feed that the first argument and `--ns` name. The argument may contain the namespace: `shop/orders`.
    static func name(_ arguments: ParsedArguments) throws(UsageError) -> FeedName {
        let parts = arguments.positionals[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            return FeedName(namespace: DatabaseLocator.namespaceName(arguments), name: arguments.positionals[0])
        }
        let name = FeedName(namespace: String(parts[0]), name: String(parts[1]))
        guard arguments["ns"] == nil || DatabaseLocator.namespaceName(arguments) == name.namespace else {
            throw UsageError("\(name) is not in the namespace that --ns names.")
        }
        return name
    }

    /// The definition as it may be shown, with defaults filled in.
    static func shown(_ record: FeedRecord) throws -> FeedDefinition {
        try FeedDefinition.read(stored: record.definition, name: record.name)
    }
}
