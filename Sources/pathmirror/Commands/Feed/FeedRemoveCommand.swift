import Feeds

struct FeedRemoveCommand: Command {
    static let specification = CommandSpecification(
        "feed rm", "removes a feed with its place in the log and its dead letters", positionals: ["NAME"],
        options: [FeedOptions.namespace, .init("yes", nil, "doesn't ask")] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try FeedOptions.name(arguments)
        try FeedOptions.administer(arguments, console, "feed rm", of: .of(name.namespace)) { administration, _ in
            _ = try administration.feed(name)
            guard
                arguments.has("yes")
                    || console.confirms("Remove \(name.name) with its place in the log and its dead letters?")
            else { throw CommandFailure("Nothing was changed. Give --yes to remove without being asked.") }
            try administration.remove(name)
        }
    }
}
