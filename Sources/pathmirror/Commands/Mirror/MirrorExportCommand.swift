import LogStore
import Mirrors

/// Writes a mirror's rows to a file or a pipe.
struct MirrorExportCommand: Command {
    static let specification = CommandSpecification(
        "mirror export", "writes a mirror's rows as CSV or JSON, at one entry of the log", positionals: ["NAME"],
        options: [
            MirrorOptions.namespace, .init("format", "csv|jsonl", "the format of the rows; default csv"),
            .init(
                "since", "SEQ|TIME",
                "only rows that this entry of the log or a later one wrote, or those after a time or an age (1h, 2d)"
            ),
            OutputFile.option,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        guard let format = MirrorExport.Format(rawValue: arguments["format"] ?? "csv") else {
            throw UsageError("--format is csv or jsonl, not \"\(arguments["format"] ?? "")\".")
        }
        let moment = try ReplayOptions.seqOrTime(arguments, "since")
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        let since = try moment.map { try seq($0, arguments, administration) }
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        let isFile = arguments["output"].map { $0 != "-" } ?? false
        let progress = Progress(console, "mirror export", of: "rows", totalBytes: nil, isQuiet: !isFile)
        let outcome: MirrorExport.Outcome
        do {
            outcome = try administration.export(mirror, MirrorExport(format, since: since)) { bytes, rowCount in
                try output.write(bytes)
                progress.update(rows: rowCount, bytes: 0)
            }
            try output.finish()
        } catch {
            progress.end()
            throw console.ending(
                error,
                isFile
                    ? "\(arguments["output"] ?? "") was not written. The same command starts again from the beginning."
                    : "The output is incomplete.")
        }
        progress.finish(rows: outcome.rowCount)
        console.error("The table was at entry \(outcome.seq): use --since \(outcome.seq) for the next export.")
    }

    /// Returns the seq from which rows are wanted. The table may lag behind it. A seq after the head is an error.
    private static func seq(
        _ moment: SeqOrTime, _ arguments: ParsedArguments, _ administration: MirrorAdministration
    ) throws -> Int64 {
        let namespace = try DatabaseLocator.namespace(arguments, administration.source)
        if case .seq(let seq) = moment {
            guard seq <= namespace.head else {
                throw CommandFailure("There is no entry \(seq): the head is \(namespace.head).")
            }
            return seq
        }
        return try moment.seq(administration.source, namespace)
    }
}

/// Writes the dbt sources for the mirrors' tables.
struct MirrorDbtCommand: Command {
    static let specification = CommandSpecification(
        "mirror dbt", "writes the mirrors as sources of a dbt project", positionals: ["[NAME…]"],
        options: [
            MirrorOptions.namespace, OutputFile.option,
        ] + DatabaseLocator.options,
        notes: [
            "Without a NAME: all mirrors of the namespace in the gateway's database. Mirrors in another database must be named.",
            "The file has tables, columns, types, descriptions, tests of keys, and freshness by the mirror's lag.",
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let namespace = arguments["ns"] ?? "default"
        let mirrors: [CatalogMirror]
        if arguments.positionals.isEmpty {
            mirrors = try administration.mirrors().filter { $0.namespace == namespace && $0.target == nil }
            guard !mirrors.isEmpty else {
                throw CommandFailure("The namespace \"\(namespace)\" has no mirror in the gateway's database.")
            }
        } else {
            mirrors = try arguments.positionals.map { try administration.mirror(named: $0, of: namespace) }
            if let other = mirrors.first(where: { $0.target != mirrors[0].target }) {
                throw CommandFailure(
                    "Mirror \"\(other.name)\" is in another database than \"\(mirrors[0].name)\": write a file for each."
                )
            }
        }
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        try output.write(Array(DbtSources(mirrors).yaml.utf8))
        try output.finish()
    }
}
