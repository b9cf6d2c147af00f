import Feeds
import LogStore
import Runtime

/// Delivers messages of a part of the log again.
struct ReplayFeedCommand: Command {
    static let specification = CommandSpecification(
        "replay feed", "delivers a feed's messages of a part of the log again, besides new ones",
        positionals: ["NAME"],
        options: [
            ReplayOptions.from, ReplayOptions.to,
            .init("key", "KEY", "only messages of this key"),
            .init("into", "FEED", "another feed with the same path that delivers them; default the same"),
            FeedOptions.namespace, ReplayProgress.rateOption, ReplayOptions.dryRun, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        guard let from = try ReplayOptions.seqOrTime(arguments, "from") else { throw UsageError("--from is missing.") }
        let to = try ReplayOptions.seqOrTime(arguments, "to") ?? .head
        if case (.seq(let first), .seq(let last)) = (from, to), first > last {
            throw UsageError("--from \(first) comes after --to \(last).")
        }
        let rate = try ReplayProgress.rate(arguments)
        let name = try FeedOptions.name(arguments)
        try FeedOptions.administer(arguments, console, "replay feed", of: .of(name.namespace)) { _, connection in
            guard let namespace = try connection.namespace(named: name.namespace) else {
                throw LogStoreError.unknownNamespace(name.namespace)
            }
            var replay = try FeedReplay(connection, name, into: arguments["into"], key: arguments["key"])
            let first = max(1, try from.firstSeq(connection, namespace))
            let last = try to.seq(connection, namespace)
            let progress = ReplayProgress(
                console, "replay", total: max(0, last - first + 1), rate: rate, isQuiet: arguments.has("json"))
            replay.pageLimit = progress.pageLimit(atMost: replay.pageLimit)
            let outcome: FeedReplay.Outcome
            do {
                outcome = try replay.run(from: first, to: last, isDryRun: arguments.has("dry-run")) {
                    progress.advance(to: $0 - first + 1)
                }
            } catch {
                progress.end()
                if console.interruption.signal != nil {
                    throw console.ending(
                        error,
                        "Messages of entries up to \(first + progress.done - 1) are scheduled; resume with --from \(first + progress.done)."
                    )
                }
                guard case FeedError.pruned(let wanted, let oldest) = error else { throw error }
                throw CommandFailure(
                    "Entry \(wanted) is not in the log any more; the oldest is \(oldest): give --from \(oldest).")
            }
            progress.end()
            report(outcome, arguments["into"] ?? name.name, arguments, console)
        }
    }

    private static func report(
        _ outcome: FeedReplay.Outcome, _ feed: String, _ arguments: ParsedArguments, _ console: Console
    ) {
        let isDryRun = arguments.has("dry-run")
        guard !arguments.has("json") else {
            return console.write(
                JSONOutput.object([
                    "entries": .number(outcome.entries), "messages": .number(outcome.messages),
                    "toCome": .number(outcome.toCome), "dryRun": .bool(isDryRun),
                ]).line)
        }
        let verb = isDryRun ? "would be" : outcome.messages == 1 ? "is" : "are"
        let entries = Counted.text(outcome.entries, "entry")
        console.write(
            "\(Counted.text(outcome.messages, "message")) of \(entries) \(verb) delivered once more by \(feed)"
                + (outcome.toCome > 0 ? "; \(outcome.toCome) more are still to be delivered anyway." : "."))
    }
}
