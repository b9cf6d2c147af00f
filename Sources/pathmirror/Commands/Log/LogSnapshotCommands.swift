import LogStore
import Runtime
import Tree

/// Keeps whole trees, lists them, forgets them.
struct LogSnapshotCommand: Command {
    static let specification = CommandSpecification(
        "log snapshot", "keeps the tree of a moment whole, so that later trees are rebuilt from it",
        options: [
            ReplayOptions.namespace,
            .init("at", "SEQ|TIME", "the moment: a seq, a time, or how long ago (1h, 2d); default now"),
            .init("list", nil, "lists the snapshots instead"), .init("drop", "SEQ", "forgets a snapshot instead"),
            ReplayProgress.rateOption, .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let moment = try ReplayOptions.moment(arguments, "at")
        let rate = try ReplayProgress.rate(arguments)
        let dropped = try arguments.integer("drop", in: 0...Int(Int64.max))
        let connection = try Database.connection(arguments, console, "log snapshot")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        if arguments.has("list") { return try list(connection, namespace, arguments, console) }
        if let dropped { return try drop(Int64(dropped), connection, namespace, console) }
        let isQuiet = arguments.has("json")
        let seq: Int64
        if let moment, moment != .head {
            seq = try moment.seq(connection, namespace)
            let tree = try ReplayOptions.tree(
                connection, namespace, at: seq, console, "snapshot", rate: rate, isQuiet: isQuiet)
            try console.telling("snapshot: writing \(Counted.text(tree.root.rowCount, "leaf"))", isQuiet: isQuiet) {
                _ in
                try connection.saveSnapshot(namespace.id, at: seq, tree.root)
            }
        } else {
            let progress = ReplayProgress(
                console, "snapshot", "leaves", total: try connection.estimatedRows(namespace.id, below: .root),
                isEstimate: true, rate: rate, isQuiet: isQuiet)
            defer { progress.end() }
            seq = try connection.takeSnapshot(namespace.id) { progress.advance(to: Int64($0)) }
        }
        let rows = try connection.snapshots(namespace.id).first { $0.seq == seq }?.rowCount ?? 0
        console.write(
            isQuiet
                ? JSONOutput.object(["seq": .number(seq), "rows": .number(rows)]).line
                : "The tree at seq \(seq) is kept: \(Counted.text(rows, "leaf")).")
    }

    private static func list(
        _ connection: LogConnection, _ namespace: NamespaceRecord, _ arguments: ParsedArguments, _ console: Console
    ) throws {
        var table = TextTable(["SEQ", "TIME", "SIZE", "MADE BY"], numbers: [0, 2])
        for snapshot in try connection.snapshots(namespace.id) {
            let time = Timestamp.iso8601(unixMilliseconds: snapshot.createdAt)
            guard arguments.has("json") else {
                table.add("\(snapshot.seq)", time, Counted.text(snapshot.rowCount, "leaf"), snapshot.purpose.rawValue)
                continue
            }
            console.write(
                JSONOutput.object([
                    "seq": .number(snapshot.seq), "createdAt": .text(time), "rows": .number(snapshot.rowCount),
                    "madeBy": .text(snapshot.purpose.rawValue),
                ]).line)
        }
        table.write(to: console)
    }

    private static func drop(
        _ seq: Int64, _ connection: LogConnection, _ namespace: NamespaceRecord, _ console: Console
    ) throws {
        guard seq != namespace.retainedFrom - 1 else {
            throw CommandFailure(
                "The log begins right behind the snapshot at seq \(seq): without it nothing can be rebuilt.")
        }
        guard try connection.dropSnapshot(namespace.id, at: seq) else { throw ReplayError.noSnapshot(seq: seq) }
        console.write("The snapshot at seq \(seq) is forgotten.")
    }
}

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
