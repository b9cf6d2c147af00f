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

/// Entries as lines, for `replay apply` and for other programs.
struct ReplayLogCommand: Command {
    static let specification = CommandSpecification(
        "replay log", "writes entries of the log, one JSON object a line",
        options: [
            ReplayOptions.from, ReplayOptions.to,
            ReplayOptions.path, ReplayOptions.namespace,
            .init(
                "output", "FILE",
                "where to write (also -o), default and - standard output; cut short, it goes on when started again"),
            ReplayProgress.rateOption, ReplayOptions.dryRun,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let fromPosition = try ReplayOptions.moment(arguments, "from")
        let toPosition = try ReplayOptions.moment(arguments, "to") ?? .head
        let path = try ReplayOptions.path(arguments)
        let rate = try ReplayProgress.rate(arguments)
        let connection = try Database.connection(arguments, console, "replay log")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        var from = namespace.retainedFrom
        switch fromPosition {
        case .seq(let seq):
            from = max(1, seq)
            guard from >= namespace.retainedFrom else {
                throw CommandFailure(
                    "Entry \(from) is not in the log any more: it begins at \(namespace.retainedFrom).")
            }
        case .some(let moment): from = try moment.firstSeq(connection, namespace)
        case nil: break
        }
        let to = try toPosition.seq(connection, namespace)
        let lines = try LogLines(connection, namespace, within: path)
        if arguments.has("dry-run") {
            return console.write("Would read \(Counted.text(max(0, to - from + 1), "entry")), \(from) to \(to).")
        }
        let file = arguments["output"].flatMap { $0 == "-" ? nil : $0 }
        let output = try EntryFile(file, from: from, source: lines.source, standardOutput: console.output)
        if let last = output.lastSeq { console.error("replay: goes on after entry \(last), which was written before") }
        let first = output.lastSeq.map { $0 + 1 } ?? from
        let progress = ReplayProgress(
            console, "replay", total: to - first + 1, rate: rate,
            isQuiet: file == nil && (!console.isTerminal || console.showsResults))
        var count = 0
        do {
            let write = { (line: LogLine) throws in
                switch line.content {
                case .entry, .end: count += 1
                case .bulk, .part: break
                }
                try output.write(line.json + [0x0A])
                try console.interruption.check()
            }
            try lines.run(
                from: first, to: to, pageLimit: progress.pageLimit(atMost: 1_000), time: Timestamp.iso8601,
                progress: { progress.advance(to: $0 - first + 1) }, write)
            try output.finish()
        } catch {
            progress.end()
            guard console.interruption.signal != nil, let kept = try output.keep() else {
                throw console.ending(error, "The output is not whole.")
            }
            let written = Counted.text(output.keptCount + count, "entry", "is", "are")
            throw console.ending(error, "\(written) in \(kept); the same command goes on after them.")
        }
        progress.finish(Counted.text(count, "entry"))
    }
}

/// Entries of another log, applied to a namespace.
struct ReplayApplyCommand: Command {
    static let specification = CommandSpecification(
        "replay apply", "applies a file of 'replay log' to a namespace; what was applied before is left out",
        positionals: ["FILE|-"],
        options: [
            .init("ns", "NAME", "the namespace, made if missing; default \"default\""),
            ReplayProgress.rateOption, ReplayOptions.dryRun, .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let rate = try ReplayProgress.rate(arguments)
        let connection = try Database.connection(arguments, console, "replay apply")
        defer { connection.close() }
        let isDryRun = arguments.has("dry-run")
        let isQuiet = arguments.has("json")
        let name = Database.namespaceName(arguments)
        if isDryRun { _ = try Database.namespace(arguments, connection) }
        let reader = try FileReader(
            arguments.positionals[0], standardInput: console.input, interruption: console.interruption)
        let progress = ReplayProgress(
            console, "apply", isDryRun ? "entries looked at" : "entries", rate: rate, isQuiet: isQuiet)
        let applier = try EntryApplier(connection, named: name, isDryRun: isDryRun) { progress.advance(by: $0) }
        applier.batchEntries = progress.pageLimit(atMost: applier.batchEntries)
        var lines = LineReader(reader)
        do {
            while let (text, _) = try lines.next() {
                let line = try LogLine(text, number: lines.number)
                try applier.add(line, number: lines.number, byteCount: text.count)
                try console.interruption.check()
            }
            try applier.finish()
        } catch {
            progress.end()
            // What came before a bad line is applied, and stays.
            if let error = error as? ReplayError { throw CommandFailure("\(arguments.positionals[0]): \(error)") }
            throw console.ending(
                error, "\(Counted.text(progress.done, "entry", "is", "are")) done; the same command goes on after them."
            )
        }
        progress.end()
        if isQuiet {
            console.write(
                JSONOutput.object([
                    "applied": .number(Int64(applier.appliedCount)), "known": .number(Int64(applier.knownCount)),
                    "skipped": .number(Int64(applier.skippedCount)), "seq": .number(applier.lastSeq),
                    "dryRun": .bool(isDryRun),
                ]).line)
        } else {
            console.write(
                "\(isDryRun ? "Would apply" : "Applied") \(Counted.text(applier.appliedCount, "entry")); \(applier.knownCount) \(applier.knownCount == 1 ? "was" : "were") applied before"
                    + (applier.skippedCount > 0 ? ", \(applier.skippedCount) carry no data." : "."))
        }
    }
}
