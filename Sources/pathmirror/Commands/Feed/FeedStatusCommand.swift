import Feeds
import LogStore

struct FeedStatusCommand: Command {
    static let specification = CommandSpecification(
        "feed status", "shows how far the feeds have come; exits 1 if one is broken", positionals: ["[NAME]"],
        options: [FeedOptions.namespace, .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try FeedOptions.administer(arguments, "feed status") { administration, _ in
            var names = try administration.allFeeds().map { FeedName(namespace: $0.namespace, name: $0.name) }
            if !arguments.positionals.isEmpty {
                let name = FeedOptions.name(arguments)
                guard names.contains(name) else { throw FeedError.unknownFeed(name) }
                names = [name]
            } else if arguments["ns"] != nil {
                names.removeAll { $0.namespace != Database.namespaceName(arguments) }
            }
            var broken: CommandFailure?
            for name in names {
                let status = try administration.status(name)
                console.write(arguments.has("json") ? json(name, status).line : line(name, status))
                guard status.state == "broken", broken == nil else { continue }
                broken = CommandFailure("Feed \"\(name.name)\" is broken: \(status.message ?? "")")
            }
            if let broken { throw broken }
        }
    }

    static func line(_ name: FeedName, _ status: FeedStatusRecord) -> String {
        var line = "\(name.namespace)  \(name.name)  \(status.state)  seq \(status.seq) of \(status.head)"
        if status.lagEntries > 0 { line += "  \(milliseconds(status)) ms behind" }
        if status.pending > 0 { line += "  \(status.pending) messages wait, \(status.held) of them held" }
        if status.deadLetters > 0 { line += "  \(status.deadLetters) dead letters" }
        if status.setAside > 0 { line += "  \(status.setAside) set aside" }
        if status.holdsBackSeconds > 0 {
            line += "  has held back pruning for \(Int64(status.holdsBackSeconds)) s beyond its retention"
        }
        if let message = status.message { line += "  \(message)" }
        return line
    }

    static func json(_ name: FeedName, _ status: FeedStatusRecord) -> JSONOutput {
        .object([
            "namespace": .text(name.namespace), "name": .text(name.name), "state": .text(status.state),
            "seq": .number(status.seq), "head": .number(status.head), "lagEntries": .number(status.lagEntries),
            "lagMilliseconds": .number(milliseconds(status)), "pendingMessages": .number(status.pending),
            "heldMessages": .number(status.held), "delivered": .number(status.delivered),
            "acknowledged": .number(status.acknowledged), "redelivered": .number(status.redelivered),
            "deadLetters": .number(status.deadLetters), "setAside": .number(status.setAside),
            "holdsBackMilliseconds": .number(Int64((status.holdsBackSeconds * 1_000).rounded())),
            "message": JSONOutput(status.message), "gateway": JSONOutput(status.gateway),
        ])
    }

    private static func milliseconds(_ status: FeedStatusRecord) -> Int64 {
        Int64((status.lagSeconds * 1_000).rounded())
    }
}
