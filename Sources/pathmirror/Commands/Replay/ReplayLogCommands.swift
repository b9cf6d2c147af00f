import LogStore
import Runtime
import Tree

/// Writes entries as lines, for `replay apply` and for other programs.
struct ReplayLogCommand: Command {
    static let specification = CommandSpecification(
        "replay log", "writes entries of the log, one JSON object a line",
        options: [
            ReplayOptions.from, ReplayOptions.to,
            ReplayOptions.path, ReplayOptions.namespace,
            .init(
                "output", "FILE",
                "the output file (also -o), default and - standard output; a run resumes an incomplete file"),
            ReplayProgress.rateOption, ReplayOptions.dryRun,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let fromPosition = try ReplayOptions.seqOrTime(arguments, "from")
        let toPosition = try ReplayOptions.seqOrTime(arguments, "to") ?? .head
        let path = try ReplayOptions.path(arguments)
        let rate = try ReplayProgress.rate(arguments)
        let connection = try DatabaseLocator.connection(arguments, console, "replay log")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
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
        if let last = output.lastSeq { console.error("replay: resumes after entry \(last), which was written before") }
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
                throw console.ending(error, "The output is incomplete.")
            }
            let written = Counted.text(output.keptCount + count, "entry", "is", "are")
            throw console.ending(error, "\(written) in \(kept); the same command resumes after them.")
        }
        progress.finish(Counted.text(count, "entry"))
    }
}

/// Applies entries of another log to a namespace.
struct ReplayApplyCommand: Command {
    static let specification = CommandSpecification(
        "replay apply", "applies a file of 'replay log' to a namespace; entries that were applied before are left out",
        positionals: ["FILE|-"],
        options: [
            .init("ns", "NAME", "the namespace, created if missing; default \"default\""),
            ReplayProgress.rateOption, ReplayOptions.dryRun, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let rate = try ReplayProgress.rate(arguments)
        let connection = try DatabaseLocator.connection(arguments, console, "replay apply")
        defer { connection.close() }
        let isDryRun = arguments.has("dry-run")
        let isQuiet = arguments.has("json")
        let name = DatabaseLocator.namespaceName(arguments)
        if isDryRun { _ = try DatabaseLocator.namespace(arguments, connection) }
        let reader = try FileReader(
            arguments.positionals[0], standardInput: console.input, interruption: console.interruption)
        let progress = ReplayProgress(
            console, "apply", isDryRun ? "entries read" : "entries", rate: rate, isQuiet: isQuiet)
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
            // The entries before a bad line have been applied, and remain.
            if let error = error as? ReplayError { throw CommandFailure("\(arguments.positionals[0]): \(error)") }
            throw console.ending(
                error, "\(Counted.text(progress.done, "entry", "is", "are")) done; the same command resumes after them."
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
