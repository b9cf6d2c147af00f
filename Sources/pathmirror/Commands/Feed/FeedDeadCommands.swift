import Feeds
import LogStore

struct FeedDeadListCommand: Command {
    static let specification = CommandSpecification(
        "feed dead ls", "lists a feed's dead letters, the oldest first", positionals: ["NAME"],
        options: [
            FeedOptions.namespace, .init("limit", "N", "the most dead letters to list; default 1000"),
            .init("after", "ID", "begins after this message"), .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try FeedOptions.name(arguments)
        let limit = try arguments.integer("limit", in: 1...1_000_000) ?? 1_000
        let after = try arguments["after"].map { try FeedDeadSelection.position($0, name, "after") }
        try FeedOptions.administer(arguments, console, "feed dead ls", of: .of(name.namespace)) { administration, _ in
            var table = TextTable(["ID", "KEY", "ATTEMPTS", "GIVEN UP", "LAST ERROR"])
            for deadLetter in try administration.deadLetters(name, after: after, limit: limit) {
                guard arguments.has("json") else {
                    table.add(
                        deadLetter.id(in: name.namespace), deadLetter.key, Counted.text(deadLetter.attempts, "attempt"),
                        deadLetter.deadAt,
                        deadLetter.lastReason)
                    continue
                }
                console.write(String(decoding: deadLetter.json, as: UTF8.self))
            }
            table.write(to: console)
        }
    }
}

struct FeedDeadRetryCommand: Command {
    static let specification = CommandSpecification(
        "feed dead retry", "delivers dead letters once more, and the messages that they blocked",
        positionals: ["NAME"],
        options: FeedDeadSelection.options + [FeedOptions.namespace, .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try FeedDeadSelection.change(arguments, console, "delivered once more") { (try $0.retry($1, $2), nil) }
    }
}

struct FeedDeadDropCommand: Command {
    static let specification = CommandSpecification(
        "feed dead drop", "drops dead letters, and delivers the messages that they blocked; asks before it drops all",
        positionals: ["NAME"],
        options: FeedDeadSelection.options + [Confirmation.option, FeedOptions.namespace, .json]
            + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try FeedDeadSelection.change(arguments, console, "dropped") { administration, name, selection in
            guard let summary = try administration.deadLetterSummary(name, selection) else { return (0, nil) }
            if selection == .all {
                let deadLetters =
                    "\(Counted.text(summary.count, "dead letter")) of \(name), the oldest of \(summary.oldest)"
                try Confirmation.require(
                    "Drop \(deadLetters)? They cannot be restored.",
                    "Add --yes to drop \(deadLetters) without being asked.", arguments, console)
                guard try administration.deadLetterSummary(name, selection) == summary else {
                    throw CommandFailure(
                        "The dead letters of \(name) changed while the question was open. Nothing was dropped: repeat the command."
                    )
                }
            }
            let note =
                "This cannot be reversed. To deliver all messages of entries \(summary.firstSeq) to \(summary.lastSeq) again: pathmirror replay feed \(name) --from \(summary.firstSeq) --to \(summary.lastSeq)"
            return (try administration.drop(name, selection), note)
        }
    }
}

/// The dead letters that a command selects.
private enum FeedDeadSelection {
    static let options: [OptionSpecification] = [
        .init("id", "ID[,ID…]", "the dead letters with these ids"),
        .init("key", "KEY", "the dead letters with this key"),
        .init("all", nil, "all dead letters"),
    ]

    /// - Parameter body: returns the number of dead letters that it has changed, and a sentence after the result, if any.
    static func change(
        _ arguments: ParsedArguments, _ console: Console, _ words: String,
        _ body: (FeedAdministration, FeedName, LogConnection.DeadLetterSelection) throws -> (
            count: Int64, note: String?
        )
    ) throws {
        let name = try FeedOptions.name(arguments)
        let selection = try selection(arguments, name)
        try FeedOptions.administer(arguments, console, "feed dead", of: .of(name.namespace)) { administration, _ in
            let (count, note) = try body(administration, name, selection)
            // If the command names keys, none found is an error. With `--all`, none is fine.
            let isNothing = count == 0 && !arguments.has("all")
            if arguments.has("json") {
                console.write(JSONOutput.object(["count": .number(count)]).line)
            } else if !isNothing {
                console.write("\(Counted.text(count, "dead letter")) \(count == 1 ? "is" : "are") \(words).")
                if let note { console.write(note) }
            }
            guard isNothing else { return }
            throw CommandFailure(
                "No dead letter matches: 'pathmirror feed dead ls \(name)' lists all.")
        }
    }

    private static func selection(
        _ arguments: ParsedArguments, _ name: FeedName
    ) throws -> LogConnection.DeadLetterSelection {
        switch (arguments["id"], arguments["key"], arguments.has("all")) {
        case (let ids?, nil, false):
            return .positions(try ids.split(separator: ",").map { try position(String($0), name, "id") })
        case (nil, let key?, false): return .key(key)
        case (nil, nil, true): return .all
        default: throw UsageError("Give one of --id, --key and --all.")
        }
    }

    static func position(_ text: String, _ name: FeedName, _ option: String) throws -> FeedPosition {
        guard let position = FeedPosition(id: text, in: name.namespace) else {
            throw UsageError("--\(option): \"\(text)\" is not a message id, such as \(name.namespace):42:0.")
        }
        return position
    }
}
