import LogStore
import Runtime
import Tree

/// Writes the inverse of one entry.
struct LogUndoCommand: Command {
    static let specification = CommandSpecification(
        "log undo",
        "writes the inverse of one entry, unless later entries wrote at the same paths; shows the plan first",
        positionals: ["SEQ"],
        options: [LogOptions.namespace, PlanConfirmation.option] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let text = arguments.positionals[0]
        guard let seq = Int64(text), seq > 0 else {
            throw UsageError(
                "SEQ must be the seq of an entry, such as 12, not \"\(text)\". 'pathmirror log ls' lists entries.")
        }
        let connection = try DatabaseLocator.connection(arguments, console, "log undo")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        guard namespace.following == .nothing else { throw LogStoreError.followsUpstream }
        let entry = try EntryUndo.entry(connection, namespace, seq)
        let (old, new) = try trees(around: entry, connection, namespace, console)
        let undo = try EntryUndo(connection, namespace, entry, from: old, to: new)
        do {
            try check(undo, namespace, console)
            console.write(
                "Plan to undo entry \(seq) of \(namespace.name), \(entry.operation.rawValue) \(TextWidth.plain("\(entry.path)")):"
            )
            for line in RowSummaryText.lines(undo.inverse.summary) { console.write(line) }
            try PlanConfirmation.ask(arguments, console)
            let written = try undo.write(after: namespace.head)
            console.write("Entry \(seq) is undone by entry \(written).")
            console.write("To reverse it: \(UndoHint.command(written, namespace.name, arguments))")
        } catch UndoError.overwritten(_, let later) {
            throw refusal(seq, later, namespace.name, arguments, console)
        }
    }

    /// Lists the conflicting later entries on standard error, and returns the rest of the message.
    private static func refusal(
        _ seq: Int64, _ later: LaterWrites, _ namespace: String, _ arguments: ParsedArguments, _ console: Console
    ) -> CommandFailure {
        if let undo = later.first.first(where: { $0.entry.origin?.undoneSeq == seq })?.entry.seq {
            return CommandFailure(
                "Entry \(seq) was undone by entry \(undo). Nothing was changed. To reverse that: \(UndoHint.command(undo, namespace, arguments))"
            )
        }
        show(later, console)
        return CommandFailure(
            "\(UndoError.overwritten(seq: seq, by: later)) Undo those first, the newest first, or restore a path by 'pathmirror replay tree --at \(seq - 1) --path PATH --ns \(namespace) --into \(namespace) --replace'."
        )
    }

    /// The tree before an entry and the tree after it, or the part of both that the entry concerns.
    private static func trees(
        around entry: Entry, _ connection: LogConnection, _ namespace: NamespaceRecord, _ console: Console
    ) throws -> (old: Node, new: Node) {
        let load = { (path: Path?) throws -> (old: Node, new: Node) in
            var rebuild = try TreeRebuild(
                connection, namespace, at: entry.seq - 1, last: entry.seq, within: path, console, "undo", rate: nil,
                isQuiet: false)
            try rebuild.advance(to: entry.seq - 1)
            let old = rebuild.tree.root
            try rebuild.advance(to: entry.seq)
            return (old, rebuild.tree.root)
        }
        do {
            // A top-level node that exists before and after the entry is sufficient: the root is a branch both times.
            if let path = entry.topLevelPath {
                let (old, new) = try load(path)
                if !old.isNull, !new.isNull { return (old, new) }
            }
            return try load(nil)
        } catch ReplayError.notRetained(_, let oldest) {
            throw UndoError.stateNotRetained(seq: entry.seq, oldest: oldest)
        }
    }

    private static func check(_ undo: EntryUndo, _ namespace: NamespaceRecord, _ console: Console) throws {
        let seq = undo.entry.seq
        let progress = ReplayProgress(console, "undo", "later entries read", total: namespace.head - seq)
        defer { progress.end() }
        try undo.check(through: namespace.head) {
            progress.advance(to: $0 - seq)
            try console.interruption.check()
        }
    }

    private static func show(_ later: LaterWrites, _ console: Console) {
        var table = TextTable(["SEQ", "COMMITTED", "BY", "OPERATION", "PATHS"], numbers: [0])
        for write in later.first {
            let more = write.pathCount - write.paths.count
            let paths = write.paths.map { TextWidth.plain("\($0)") }.joined(separator: ", ")
            table.add(
                "\(write.entry.seq)", Timestamp.iso8601(unixMilliseconds: write.entry.committedAt),
                OriginText.author(write.entry.origin), write.entry.operation.rawValue,
                more > 0 ? "\(paths) and \(more) more" : paths)
        }
        for line in table.lines(width: console.outputWidth) { console.error(line) }
        let more = later.count - later.first.count
        if more > 0 { console.error("and \(Counted.text(more, "later entry"))") }
    }
}
