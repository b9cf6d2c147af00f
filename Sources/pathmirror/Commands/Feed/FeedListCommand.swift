import Feeds
import LogStore

struct FeedListCommand: Command {
    static let specification = CommandSpecification(
        "feed ls", "lists the feeds",
        options: [.init("ns", "NAME", "only this namespace's; default all"), .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try FeedOptions.administer(arguments, console, "feed ls", of: .namespaceIfGiven) { administration, connection in
            let records =
                try arguments["ns"] == nil
                ? administration.allFeeds()
                : administration.feeds(of: try Database.namespace(arguments, connection).name)
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
