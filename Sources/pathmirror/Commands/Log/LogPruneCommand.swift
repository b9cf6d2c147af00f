import LogStore
import Runtime

/// Shortens the log.
struct LogPruneCommand: Command {
    static let whenInterrupted = "What was dropped stays dropped; the same command goes on."
    static let specification = CommandSpecification(
        "log prune", "drops old entries, after keeping the tree before the first one that stays",
        options: [
            RetentionOptions.keep,
            .init("force", nil, "also drops entries that mirrors or feeds have not read yet"),
            .init(
                "trust-clock", nil,
                "goes by PostgreSQL's clock although it is far from this machine's, or behind the newest entry"),
            ReplayOptions.namespace, ReplayOptions.dryRun, .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        guard let keeping = try RetentionOptions.keeping(arguments) else { throw UsageError("--keep is missing.") }
        let connection = try Database.connection(arguments, console, "log prune")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        let pruning = Pruning(connection, namespace)
        let isForced = arguments.has("force")
        let isDryRun = arguments.has("dry-run")
        let plan = try pruning.plan(
            keeping, force: isForced, trustsClock: arguments.has("trust-clock"))
        if !arguments.has("json") {
            for holder in plan.holders {
                console.error(
                    isForced
                        ? "\(holder.kind) \(holder.name) has read up to seq \(holder.seq) and loses what is between."
                        : "\(holder.kind) \(holder.name) still needs what follows seq \(holder.seq).")
            }
            for feed in plan.skipping where !isForced {
                console.error(
                    "feed \(feed.name) has held back what follows seq \(feed.seq) for longer than its retention: it skips \(Counted.text(plan.newFrom - 1 - feed.seq, "entry"))."
                )
            }
        }
        if !isDryRun {
            try console.telling("prune", isQuiet: arguments.has("json")) { line in
                try pruning.run(plan) { step in
                    line.note("prune: \(step)")
                    if !arguments.has("json") { console.error("prune: \(step)") }
                }
            }
        }
        if arguments.has("json") {
            return console.write(json(plan, isDryRun).line)
        }
        let what =
            "\(Counted.text(plan.newFrom - plan.oldFrom, "entry")) (\(Counted.text(plan.partitions.count, "partition")) whole)"
        console.write(
            plan.isEmpty
                ? "Nothing to drop: the log begins at seq \(plan.oldFrom)."
                : "\(isDryRun ? "Would drop" : "Dropped") \(what): the log \(isDryRun ? "would begin" : "begins") at seq \(plan.newFrom)."
        )
    }

    private static func json(_ plan: Pruning.Plan, _ isDryRun: Bool) -> JSONOutput {
        .object([
            "from": .number(plan.oldFrom), "to": .number(plan.newFrom), "wanted": .number(plan.wantedFrom),
            "head": .number(plan.head), "partitions": .list(plan.partitions.map { .text($0) }),
            "deleted": .number(plan.deletedEntries), "dryRun": .bool(isDryRun),
            "holders": .list(
                plan.holders.map {
                    .object(["kind": .text($0.kind), "name": .text($0.name), "seq": .number($0.seq)])
                }),
            "skipping": .list(
                plan.skipping.map {
                    .object([
                        "name": .text($0.name), "seq": .number($0.seq), "entries": .number(plan.newFrom - 1 - $0.seq),
                    ])
                }),
        ])
    }
}
