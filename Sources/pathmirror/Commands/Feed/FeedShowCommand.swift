import Feeds
import LogStore

struct FeedShowCommand: Command {
    static let specification = CommandSpecification(
        "feed show", "shows a feed's definition, with what was left out of it, and its figures",
        positionals: ["NAME"], options: [FeedOptions.namespace, .json] + Database.options)

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
