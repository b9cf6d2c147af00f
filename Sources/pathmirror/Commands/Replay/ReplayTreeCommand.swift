import LogStore
import Runtime
import Tree

/// The tree as it was, into a namespace or a file.
struct ReplayTreeCommand: Command {
    static let specification = CommandSpecification(
        "replay tree", "writes the tree as it was at a seq or a time: into a namespace, or as a JSON export",
        options: [
            .init("at", "SEQ|TIME", "the moment: a seq, a time (without a zone it is UTC), or how long ago: 1h, 2d"),
            .init("into", "NAMESPACE", "a new namespace to write it to, as one entry"),
            .init("output", "FILE", "a file to write it to (also -o); - for standard output"),
            ReplayOptions.namespace, ReplayOptions.path,
            .init("replace", nil, "the namespace may have data, which is replaced (of --path, what is there)"),
            .init("chunked", nil, "in many transactions; started again it goes on where it stopped"),
            .init("chunk-rows", "N", "leaves in one transaction of --chunked; default 200000"),
            ReplayProgress.rateOption, ReplayOptions.dryRun, .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        guard let moment = try ReplayOptions.moment(arguments, "at") else { throw UsageError("--at is missing.") }
        let isDryRun = arguments.has("dry-run")
        guard (arguments["into"] == nil) != (arguments["output"] == nil) || isDryRun else {
            throw UsageError("Give either --into or --output.")
        }
        let path = try ReplayOptions.path(arguments)
        let rate = try ReplayProgress.rate(arguments)
        let connection = try Database.connection(arguments, console, "replay tree")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        let seq = try moment.seq(connection, namespace)
        let isQuiet = arguments.has("json")
        let tree = try ReplayOptions.tree(
            connection, namespace, at: seq, within: path, console, rate: rate, isQuiet: isQuiet)
        let from = tree.startSeq == 0 ? "the log's beginning" : "the snapshot at seq \(tree.startSeq)"
        let part = tree.root[path ?? .root]
        let what =
            "the tree at seq \(seq), \(Counted.text(part.rowCount, "leaf")), from \(from) and \(Counted.text(tree.entryCount, "entry"))"
        var target: Int64?
        if isDryRun {
            if !isQuiet { console.write("Would write \(what).") }
        } else if let name = arguments["into"] {
            target = try write(
                part, of: "\(namespace.id)@\(seq)", into: name, at: path ?? .root, connection, arguments, console)
            if !isQuiet { console.write("\(name) holds \(what); its seq is \(target ?? 0).") }
        } else if let file = arguments["output"] {
            let output = try OutputFile(file, standardOutput: console.output)
            do {
                try console.telling("write: \(Counted.text(part.rowCount, "leaf"))", isQuiet: isQuiet) { _ in
                    try TreeWriter.write(part) {
                        try console.interruption.check()
                        try output.write($0)
                    }
                    try output.finish()
                }
            } catch {
                throw console.ending(error, "\(file == "-" ? "The output is not whole" : "\(file) was not written").")
            }
            if !isQuiet, file != "-" { console.write("\(file) holds \(what).") }
        }
        guard isQuiet, arguments["output"] != "-" else { return }
        console.write(
            JSONOutput.object([
                "seq": .number(seq), "leaves": .number(Int64(part.rowCount)), "snapshot": .number(tree.startSeq),
                "entries": .number(tree.entryCount), "intoSeq": target.map { .number($0) } ?? .null,
                "dryRun": .bool(isDryRun),
            ]).line)
    }

    private static func write(
        _ root: Node, of source: String, into name: String, at path: Path, _ connection: LogConnection,
        _ arguments: ParsedArguments, _ console: Console
    ) throws -> Int64 {
        guard !root.isNull else { throw CommandFailure("The tree was empty then: there is nothing to write.") }
        var settings = Importer.Settings()
        if arguments.has("chunked") {
            settings.rowsPerChunk = try arguments.integer("chunk-rows", in: 1...100_000_000) ?? 200_000
        }
        let importer = try Importer(
            connection, named: name, at: path, settings: settings, fingerprint: "replay \(source)")
        guard importer.headBefore == 0 || importer.resumedRows > 0 || arguments.has("replace") else {
            throw CommandFailure(
                "\(ReplayError.notEmpty(namespace: name, head: importer.headBefore)) --replace replaces what is there.")
        }
        let progress = ReplayProgress(
            console, "write", "leaves", total: Int64(root.rowCount), rate: try ReplayProgress.rate(arguments),
            isQuiet: arguments.has("json"))
        if importer.resumedRows > 0, !arguments.has("json") {
            console.error(
                "replay: goes on after \(Counted.text(importer.resumedRows, "leaf", "that was", "that were")) written before"
            )
        }
        do {
            try TreeRows.forEach(in: root, at: path) { path, value in
                try importer.add(path, value)
                if importer.rowsDone % 500 == 0 { try console.interruption.check() }
                if importer.rowsDone % 500 == 0 { progress.advance(to: Int64(importer.rowsDone)) }
            }
            try importer.finish()
        } catch {
            importer.abandon()
            progress.end()
            throw console.ending(
                error,
                settings.rowsPerChunk == nil
                    ? "Nothing was changed, as all of it is one transaction. With --chunked it goes on where it stopped."
                    : "\(Counted.text(importer.rowsKept, "leaf", "is", "are")) written; the same command goes on after them."
            )
        }
        progress.end()
        return importer.lastSeq == 0 ? importer.headBefore : importer.lastSeq
    }
}
