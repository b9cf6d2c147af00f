import LogStore
import Tree

/// Writes an earlier tree into a namespace: shows the plan, asks before it replaces anything, and says how to reverse it.
struct TreeRestore {
    struct Outcome {
        /// The head of the namespace afterwards; nil for a dry run.
        var seq: Int64?
        /// The rows added, changed and removed; nil for a run that resumes.
        let summary: RowSummary?
        /// The command that reverses the newest entry written, if there is one.
        var undo: String?
    }

    private let connection: LogConnection
    private let name: String
    private let path: Path
    /// The seq of the earlier tree.
    private let seq: Int64
    /// The earlier tree in words.
    private let what: String
    /// Identifies the tree, so that an interrupted run can resume.
    private let source: String
    private let arguments: ParsedArguments
    private let console: Console

    init(
        _ connection: LogConnection, into name: String, at path: Path, from seq: Int64, what: String,
        source: String, _ arguments: ParsedArguments, _ console: Console
    ) {
        self.connection = connection
        self.name = name
        self.path = path
        self.seq = seq
        self.what = what
        self.source = source
        self.arguments = arguments
        self.console = console
    }

    private var isQuiet: Bool { arguments.has("json") }
    private var isDryRun: Bool { arguments.has("dry-run") }
    private var restoresMissing: Bool { arguments.has("missing-only") }

    /// The number of attempts to restore missing nodes while other clients write at, above or below them.
    static let maxAttempts = 5
    /// With more missing nodes, entries anywhere at the path count as conflicts, because their paths would take much memory.
    private static let maxWatchedPaths = 100_000

    /// The result of all attempts.
    private struct Tally {
        var rows = 0
        var entries = 0
        /// The seq of the last entry written; 0 if there is none.
        var lastSeq: Int64 = 0
        /// The rows that interrupted attempts have added.
        var summary = RowSummary()
    }

    /// - Parameter planned: called after each plan. Tests write here.
    func run(_ part: Node, planned: () throws -> Void = {}) throws -> Outcome {
        var tally = Tally()
        for attempt in 1...Self.maxAttempts {
            do {
                return try run(part, attempt, &tally, planned)
            } catch LogStoreError.importConflict where restoresMissing {
                guard !isQuiet, attempt < Self.maxAttempts else { continue }
                console.error(
                    "replay: another client changed data there: attempt \(attempt + 1) of \(Self.maxAttempts) begins")
            }
        }
        let kept = tally.rows == 0 ? "Nothing was changed" : "\(Counted.text(tally.rows, "restored leaf")) stay"
        throw CommandFailure(
            "Other clients changed data at, above or below the missing nodes of \(TextWidth.plain("\(path)")) in each of \(Self.maxAttempts) attempts. \(kept). Run the same command again to restore the rest."
        )
    }

    private func run(_ part: Node, _ attempt: Int, _ tally: inout Tally, _ planned: () throws -> Void) throws -> Outcome
    {
        let importer = try makeImporter()
        // Replacing data by an empty tree removes the data.
        guard !part.isNull || arguments.has("replace") && importer.headBefore > 0 else {
            throw CommandFailure("The tree was empty then: there is nothing to write.")
        }
        let isResumed = importer.resumedRows > 0
        guard importer.headBefore == 0 || isResumed || arguments.has("replace") || restoresMissing else {
            throw CommandFailure(
                "\(ReplayError.notEmpty(namespace: name, head: importer.headBefore)) --replace replaces its data, and --missing-only adds the missing nodes."
            )
        }
        // An interrupted run has stored its plan. The rest of it only adds rows.
        guard !isResumed else {
            if isDryRun { return dryRun(nil) }
            try write([Change(path: path, value: part)], importer, &tally)
            return finish(nil, importer, tally)
        }
        let plan = try plan(part, importer)
        if importer.headBefore > 0, !isQuiet, attempt == 1 { show(plan) }
        if plan.summary.isEmpty { return tally.rows > 0 ? finish(plan, importer, tally) : nothing(plan) }
        if isDryRun { return dryRun(plan) }
        if plan.summary.replacesRows { try PlanConfirmation.ask(arguments, console) }
        try planned()
        importer.plannedHead = plan.head
        if restoresMissing, plan.writes.count <= Self.maxWatchedPaths {
            importer.watched = PathSet(plan.writes.map(\.path))
        }
        try write(plan.writes, importer, &tally)
        return finish(plan, importer, tally)
    }

    private func makeImporter() throws -> Importer {
        var settings = Importer.Settings()
        settings.replaces = !restoresMissing
        if arguments.has("chunked") {
            settings.rowsPerChunk = try arguments.integer("chunk-rows", in: 1...100_000_000) ?? 200_000
        }
        // Each run determines the missing rows again, without those that the previous run wrote.
        return try Importer(
            connection, named: name, at: path, settings: settings,
            fingerprint: restoresMissing ? nil : "replay \(source)")
    }

    private func plan(_ part: Node, _ importer: Importer) throws -> RestorePlan {
        let mode: RestorePlan.Mode = restoresMissing ? .missingOnly : .replace
        let namespace = importer.headBefore > 0 ? try connection.namespace(named: name) : nil
        return try console.reporting("replay: comparing with \(name)", isQuiet: isQuiet) { _ in
            try RestorePlan(connection, part, into: namespace, at: path, mode)
        }
    }

    private func show(_ plan: RestorePlan) {
        console.write("Plan for \(TextWidth.plain("\(path)")) of \(name) at seq \(plan.head):")
        for line in RowSummaryText.lines(plan.summary) { console.write(line) }
    }

    private func nothing(_ plan: RestorePlan) -> Outcome {
        if !isQuiet {
            console.write(
                restoresMissing
                    ? "Nothing was written: no node of the tree at seq \(seq) is missing in \(name)."
                    : "Nothing was written: \(name) holds \(what) already.")
        }
        return Outcome(seq: isDryRun ? nil : plan.head, summary: plan.summary)
    }

    private func dryRun(_ plan: RestorePlan?) -> Outcome {
        if !isQuiet {
            let leaves = Counted.text(plan?.rowCount ?? 0, "leaf")
            console.write(
                restoresMissing ? "Would restore \(leaves) of the tree at seq \(seq)." : "Would write \(what).")
        }
        return Outcome(summary: plan?.summary)
    }

    private func write(_ writes: [Change], _ importer: Importer, _ tally: inout Tally) throws {
        defer {
            tally.rows += importer.rowsKept
            tally.entries += importer.entryCount
            if importer.entryCount > 0 { tally.lastSeq = importer.lastSeq }
            if restoresMissing { note(first: importer.rowsKept, of: writes, in: &tally.summary) }
        }
        let total = writes.reduce(0) { $0 + $1.value.rowCount }
        let progress = ReplayProgress(
            console, "write", "leaves", total: Int64(total), rate: try ReplayProgress.rate(arguments),
            isQuiet: isQuiet)
        if importer.resumedRows > 0, !isQuiet {
            console.error(
                "replay: resumes after \(Counted.text(importer.resumedRows, "leaf", "that was", "that were")) written before"
            )
        }
        do {
            for change in writes {
                try TreeRows.forEach(in: change.value, at: change.path) { path, value in
                    try importer.add(path, value)
                    if importer.rowsDone % 500 == 0 { try console.interruption.check() }
                    if importer.rowsDone % 500 == 0 { progress.advance(to: Int64(importer.rowsDone)) }
                }
            }
            try importer.finish()
        } catch {
            importer.abandon()
            progress.end()
            throw console.ending(
                error,
                arguments.has("chunked")
                    ? "\(Counted.text(importer.rowsKept, "leaf", "is", "are")) written; the same command resumes after them."
                    : "Nothing was changed, as all of it is one transaction. With --chunked, a restore resumes after an interruption."
            )
        }
        progress.end()
    }

    /// Adds the first rows of some writes to a summary.
    private func note(first count: Int, of writes: [Change], in summary: inout RowSummary) {
        var rest = count
        for change in writes where rest > 0 {
            TreeRows.forEach(in: change.value, at: change.path) { row, value in
                if rest > 0 { summary.row(row, old: .null, new: value) }
                rest -= 1
            }
        }
    }

    private func finish(_ plan: RestorePlan?, _ importer: Importer, _ tally: Tally) -> Outcome {
        let known = importer.lastSeq == 0 ? importer.headBefore : importer.lastSeq
        let newHead = tally.lastSeq == 0 ? known : tally.lastSeq
        let undo = UndoHint.command(newHead, name, arguments)
        if !isQuiet {
            console.write(
                restoresMissing
                    ? "Restored \(Counted.text(tally.rows, "leaf")) of the tree at seq \(seq) in \(name); its seq is \(newHead)."
                    : "\(name) holds \(what); its seq is \(newHead).")
            if tally.entries > 1 || importer.resumedRows > 0 {
                console.write(
                    "Several entries were written. To reverse them, undo each, the newest first: \(undo)")
            } else {
                console.write("To reverse it: \(undo)")
            }
        }
        return Outcome(seq: newHead, summary: restoresMissing ? tally.summary : plan?.summary, undo: undo)
    }
}
