import Feeds
import LogStore
import Tree

struct FeedStatusCommand: Command {
    static let specification = CommandSpecification(
        "feed status", "shows the progress of the feeds; exits 1 if one is broken or not running",
        positionals: ["[NAME]"],
        options: [FeedOptions.namespace, .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let subject: DatabaseLocator.Subject =
            arguments.positionals.isEmpty ? .namespaceIfGiven : .of(try FeedOptions.name(arguments).namespace)
        try FeedOptions.administer(arguments, console, "feed status", of: subject) { administration, _ in
            var names = try administration.allFeeds().map { FeedName(namespace: $0.namespace, name: $0.name) }
            if !arguments.positionals.isEmpty {
                let name = try FeedOptions.name(arguments)
                guard names.contains(name) else { throw FeedError.unknownFeed(name) }
                names = [name]
            } else if arguments["ns"] != nil {
                names.removeAll { $0.namespace != DatabaseLocator.namespaceName(arguments) }
            }
            var failure: CommandFailure?
            var table = TextTable(["NAMESPACE", "NAME", "STATE", "PLACE", "LAG", "MESSAGES"])
            for name in names {
                let status = try administration.status(name)
                if arguments.has("json") {
                    console.write(json(name, status).line)
                } else {
                    table.add(cells(name, status))
                }
                if failure == nil { failure = Self.failure(name, status) }
            }
            table.write(to: console)
            if let failure { throw failure }
        }
    }

    /// The failure of the command; nil if a gateway works the feed.
    private static func failure(_ name: FeedName, _ status: FeedStatusRecord) -> CommandFailure? {
        switch status.state {
        case "broken": CommandFailure("Feed \(name) is broken: \(status.message ?? "")")
        case "not running": CommandFailure("Feed \(name) is not running: no gateway runs it.")
        default: nil
        }
    }

    /// A feed's figures, on one line.
    static func line(_ name: FeedName, _ status: FeedStatusRecord) -> String {
        cells(name, status).filter { !$0.isEmpty }.joined(separator: "  ")
    }

    private static func cells(_ name: FeedName, _ status: FeedStatusRecord) -> [String] {
        [
            name.namespace, name.name, status.state, "seq \(status.seq) of \(status.head)",
            status.lagEntries > 0 ? "\(LagText.text(seconds: status.lagSeconds)) behind" : "",
            messages(status).joined(separator: ", "),
        ]
    }

    private static func messages(_ status: FeedStatusRecord) -> [String] {
        var words: [String] = []
        if status.pending > 0 {
            let verb = status.pending == 1 ? "waits" : "wait"
            words.append("\(Counted.text(status.pending, "message")) \(verb), \(status.held) of them held")
        }
        if status.redelivered > 0 { words.append("\(status.redelivered) redelivered") }
        if status.deadLetters > 0 { words.append(Counted.text(status.deadLetters, "dead letter")) }
        if status.setAside > 0 { words.append("\(status.setAside) set aside") }
        if status.retrying > 0 { words.append("\(status.retrying) retrying") }
        if status.holdsBackSeconds > 0 {
            words.append(
                "has delayed pruning for \(LagText.text(seconds: status.holdsBackSeconds)) beyond its retention")
        }
        if let message = status.message { words.append(message) }
        return words
    }

    /// The fields of `GET /.feeds/NAME/status`, and those that only a list of all feeds needs.
    static func json(_ name: FeedName, _ status: FeedStatusRecord) -> JSONOutput {
        .object([
            "namespace": .text(name.namespace), "name": .text(name.name), "state": .text(status.state),
            "message": JSONOutput(status.message), "seq": .number(status.seq), "head": .number(status.head),
            "lag_entries": .number(status.lagEntries), "lag_seconds": seconds(status.lagSeconds),
            "pending_messages": .number(status.pending), "held_messages": .number(status.held),
            "delivered": .number(status.delivered), "acknowledged": .number(status.acknowledged),
            "redelivered": .number(status.redelivered), "dead_letters": .number(status.deadLetters),
            "set_aside": .number(status.setAside), "retrying": .number(status.retrying),
            "holds_back_seconds": seconds(status.holdsBackSeconds),
            "gateway": JSONOutput(status.gateway),
        ])
    }

    private static func seconds(_ value: Double) -> JSONOutput {
        var writer = JSONWriter(form: .plain)
        writer.write(.double((value * 1_000).rounded() / 1_000))
        return .raw(writer.bytes)
    }
}
