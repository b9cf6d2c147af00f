import LogStore
import Runtime

/// Removes the oldest entries of a log.
struct LogPruneCommand: Command {
    static let whenInterrupted = "Dropped entries can't be restored; the same command resumes."
    static let specification = CommandSpecification(
        "log prune", "drops old entries, after storing a snapshot of the tree before the first kept entry; asks first",
        options: [
            RetentionOptions.keep,
            .init("force", nil, "also drops entries that mirrors or feeds have not read yet"),
            .init(
                "trust-clock", nil,
                "uses PostgreSQL's clock although it differs from this machine's, or is behind the newest entry"),
            Confirmation.option, ReplayOptions.namespace, ReplayOptions.dryRun, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        guard let keeping = try RetentionOptions.keeping(arguments) else { throw UsageError("--keep is missing.") }
        let connection = try DatabaseLocator.connection(arguments, console, "log prune")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let pruning = Pruning(connection, namespace)
        let isForced = arguments.has("force")
        let isDryRun = arguments.has("dry-run")
        var plan = try pruning.plan(
            keeping, force: isForced, trustsClock: arguments.has("trust-clock"))
        if !arguments.has("json") { warn(plan, isForced, console) }
        if !isDryRun {
            if plan.newFrom > plan.oldFrom {
                let entries = try text(plan, of: namespace, pruning)
                try Confirmation.require(
                    "Drop \(entries), and keep \(RetentionOptions.words(keeping))? Dropped entries cannot be restored.",
                    "Add --yes to drop \(entries) without being asked.", arguments, console)
                // While the question was open, a reader may have begun to need these entries.
                if !arguments.has("yes") {
                    plan = try pruning.plan(.from(plan.newFrom), force: isForced)
                    if !arguments.has("json") { warn(plan, isForced, console) }
                }
            }
            try console.reporting("prune", isQuiet: arguments.has("json")) { line in
                try pruning.run(plan) { step in
                    line.note("prune: \(step)")
                    if !arguments.has("json") { console.error("prune: \(step)") }
                }
            }
        }
        if arguments.has("json") { return console.write(json(plan, isDryRun).line) }
        guard !plan.isEmpty else { return console.write("Nothing to drop: the log begins at seq \(plan.oldFrom).") }
        let what =
            "\(Counted.text(plan.newFrom - plan.oldFrom, "entry")) (\(Counted.text(plan.partitions.count, "partition")) whole)"
        console.write(
            "\(isDryRun ? "Would drop" : "Dropped") \(what): the log \(isDryRun ? "would begin" : "begins") at seq \(plan.newFrom)."
        )
        if !isDryRun { console.write("This cannot be reversed: only a backup still has the dropped entries.") }
    }

    /// Warns about readers that keep entries, and about readers that lose entries.
    private static func warn(_ plan: Pruning.Plan, _ isForced: Bool, _ console: Console) {
        for holder in plan.holders {
            console.error(
                isForced
                    ? "\(holder.kind) \(holder.name) has read up to seq \(holder.seq) and loses the entries after it."
                    : "\(holder.kind) \(holder.name) still needs the entries after seq \(holder.seq).")
        }
        for feed in plan.skipping where !isForced {
            console.error(
                "feed \(feed.name) has delayed pruning after seq \(feed.seq) for longer than its retention: it skips \(Counted.text(plan.newFrom - 1 - feed.seq, "entry"))."
            )
        }
    }

    /// `5 of 8 entries of shop (seq 1 to 5)`, with the size of partitions that are removed whole.
    private static func text(
        _ plan: Pruning.Plan, of namespace: NamespaceRecord, _ pruning: Pruning
    ) throws -> String {
        let bytes = try pruning.bytes(of: plan)
        let size = bytes == 0 ? "" : ", \(ByteCount.text(bytes)) in whole partitions"
        let all = Counted.text(plan.head - plan.oldFrom + 1, "entry")
        return
            "\(plan.newFrom - plan.oldFrom) of \(all) of \(namespace.name) (seq \(plan.oldFrom) to \(plan.newFrom - 1)\(size))"
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
