import LogStore
import Runtime
import Tree

struct RulesHistoryCommand: Command {
    static let specification = CommandSpecification(
        "rules history", "lists the rules that the namespace has had, newest last",
        options: [RulesText.namespace, .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        var table = TextTable(["SEQ", "TIME", "SIZE", "BY"], numbers: [0, 2])
        for stored in try connection.rulesHistory(namespace.id) {
            // The entry may have been pruned; the rules stay.
            let entry = try connection.entry(namespace.id, stored.seq)?.entry
            let time = entry.map { Timestamp.iso8601(unixMilliseconds: $0.committedAt) }
            let origin = entry?.origin?.json
            if arguments.has("json") {
                console.write(
                    JSONOutput.object([
                        "seq": .number(stored.seq), "committedAt": .init(time),
                        "origin": origin.map(JSONOutput.raw) ?? .null, "bytes": .number(Int64(stored.source.count)),
                    ]).line)
            } else {
                let by = entry.map { OriginText.whom($0.origin) } ?? ""
                table.add("\(stored.seq)", time ?? "(not in the log any more)", "\(stored.source.count) bytes", by)
            }
        }
        table.write(to: console)
    }
}
