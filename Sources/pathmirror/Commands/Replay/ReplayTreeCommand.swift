import LogStore
import Runtime
import Tree

/// Writes an earlier tree into a namespace or a file.
struct ReplayTreeCommand: Command {
    static let specification = CommandSpecification(
        "replay tree", "writes the tree at an earlier seq or time into a namespace, or as a JSON export",
        options: [
            .init("at", "SEQ|TIME", "the position: a seq, a time (UTC if it has no zone), or an age: 1h, 2d"),
            .init("into", "NAMESPACE", "a new namespace for the tree, written as one entry"),
            .init("output", "FILE", "a file for the tree (also -o); - for standard output"),
            ReplayOptions.namespace, ReplayOptions.path,
            .init(
                "replace", nil,
                "replaces the namespace's data (at --path, the data there); shows the plan first"),
            .init("missing-only", nil, "keeps the namespace's data, and writes only missing nodes"),
            PlanConfirmation.option,
            .init("chunked", nil, "in many transactions; a run resumes an interrupted one"),
            .init("chunk-rows", "N", "leaves in one transaction of --chunked; default 200000"),
            ReplayProgress.rateOption, ReplayOptions.dryRun, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        guard let moment = try ReplayOptions.seqOrTime(arguments, "at") else { throw UsageError("--at is missing.") }
        let isDryRun = arguments.has("dry-run")
        guard (arguments["into"] == nil) != (arguments["output"] == nil) || isDryRun else {
            throw UsageError("Give either --into or --output.")
        }
        guard !arguments.has("missing-only") || !arguments.has("replace") else {
            throw UsageError("Give either --replace or --missing-only.")
        }
        let path = try ReplayOptions.path(arguments)
        let rate = try ReplayProgress.rate(arguments)
        let connection = try DatabaseLocator.connection(arguments, console, "replay tree")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        if let target = arguments["into"] {
            try DatabaseLocator.checkTarget(target, of: "replay tree", arguments, console)
        }
        let seq = try moment.seq(connection, namespace)
        let isQuiet = arguments.has("json")
        let tree = try ReplayOptions.tree(
            connection, namespace, at: seq, within: path, console, rate: rate, isQuiet: isQuiet)
        let from = tree.startSeq == 0 ? "the beginning of the log" : "the snapshot at seq \(tree.startSeq)"
        let part = tree.root[path ?? .root]
        let what =
            "the tree at seq \(seq), \(Counted.text(part.rowCount, "leaf")), from \(from) and \(Counted.text(tree.entryCount, "entry"))"
        var outcome: TreeRestore.Outcome?
        if let name = arguments["into"] {
            let restore = TreeRestore(
                connection, into: name, at: path ?? .root, from: seq, what: what, source: "\(namespace.id)@\(seq)",
                arguments, console)
            outcome = try restore.run(part)
        } else if isDryRun {
            if !isQuiet { console.write("Would write \(what).") }
        } else if let file = arguments["output"] {
            try write(part, to: file, what, arguments, console)
        }
        guard isQuiet, arguments["output"] != "-" else { return }
        console.write(json(tree, part, outcome, isDryRun: isDryRun).line)
    }

    private static func write(
        _ part: Node, to file: String, _ what: String, _ arguments: ParsedArguments, _ console: Console
    ) throws {
        let isQuiet = arguments.has("json")
        let output = try OutputFile(file, standardOutput: console.output)
        do {
            try console.reporting("write: \(Counted.text(part.rowCount, "leaf"))", isQuiet: isQuiet) { _ in
                try TreeWriter.write(part) {
                    try console.interruption.check()
                    try output.write($0)
                }
                try output.finish()
            }
        } catch {
            throw console.ending(error, "\(file == "-" ? "The output is incomplete" : "\(file) was not written").")
        }
        if !isQuiet, file != "-" { console.write("\(file) holds \(what).") }
    }

    private static func json(
        _ tree: PastTree, _ part: Node, _ outcome: TreeRestore.Outcome?, isDryRun: Bool
    ) -> JSONOutput {
        guard let outcome else {
            return .object([
                "seq": .number(tree.seq), "leaves": .number(Int64(part.rowCount)), "snapshot": .number(tree.startSeq),
                "entries": .number(tree.entryCount), "intoSeq": .null, "dryRun": .bool(isDryRun),
            ])
        }
        return .object([
            "seq": .number(tree.seq), "leaves": .number(Int64(part.rowCount)), "snapshot": .number(tree.startSeq),
            "entries": .number(tree.entryCount), "intoSeq": outcome.seq.map { .number($0) } ?? .null,
            "dryRun": .bool(isDryRun), "changes": outcome.summary.map(RowSummaryText.json) ?? .null,
            "undo": JSONOutput(outcome.undo),
        ])
    }
}
