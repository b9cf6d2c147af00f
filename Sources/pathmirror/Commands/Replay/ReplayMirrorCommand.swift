import LogStore
import Mirrors
import Runtime

/// Rebuilds a mirror's table from the tree, or applies a part of the log to it again.
struct ReplayMirrorCommand: Command {
    static let specification = CommandSpecification(
        "replay mirror", "rebuilds a mirror's table beside the live one, compares it with the tree, and swaps them",
        positionals: ["NAME"],
        options: [
            .init(
                "from", "SEQ|TIME",
                "rebuilds no table: applies the entries from this one, or after a time or an age, to the live one again"
            ),
            ReplayOptions.namespace,
            .init("rate", "N", "limits the rows (with --from entries) per second, to spare other work"),
            ReplayOptions.dryRun, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let from = try ReplayOptions.seqOrTime(arguments, "from")
        let rate = try ReplayProgress.rate(arguments)
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        let run = MirrorReplay(administration, mirror, arguments, console, rate: rate)
        if let from {
            let namespace = try DatabaseLocator.namespace(arguments, administration.source)
            let first = try from.firstSeq(administration.source, namespace)
            try arguments.has("dry-run") ? run.surveyAgain(from: first) : run.applyAgain(from: first)
        } else {
            try arguments.has("dry-run") ? run.surveyRebuild() : run.rebuild()
        }
    }
}

/// Executes the replay and reports the result.
private struct MirrorReplay {
    private let administration: MirrorAdministration
    private let mirror: CatalogMirror
    private let arguments: ParsedArguments
    private let console: Console
    private let rate: Int?
    private let isQuiet: Bool

    init(
        _ administration: MirrorAdministration, _ mirror: CatalogMirror, _ arguments: ParsedArguments,
        _ console: Console, rate: Int?
    ) {
        self.administration = administration
        self.mirror = mirror
        self.arguments = arguments
        self.console = console
        self.rate = rate
        isQuiet = arguments.has("json")
    }

    private var table: String { mirror.definition.tableName }

    // MARK: The whole table

    func rebuild() throws {
        let phases = RebuildProgress(
            console, mirror.name, estimate: try administration.estimatedRows(mirror), rate: rate, isQuiet: isQuiet)
        defer { phases.end() }
        let outcome: MirrorBuilder.Outcome
        do {
            outcome = try administration.rebuild(mirror, rowsAtOnce: phases.rowsAtOnce) { phases.update($0) }
        } catch {
            phases.end()
            throw console.ending(
                error,
                "\(table) is unchanged, and the new table was removed. The same command starts again from the beginning."
            )
        }
        phases.end()
        for sentence in outcome.lost { console.error("\(table): \(sentence)") }
        guard !isQuiet else {
            return console.write(
                JSONOutput.object([
                    "name": .text(mirror.name), "table": .text(table), "rows": .number(Int64(outcome.rows)),
                    "misfits": .number(Int64(outcome.conversionErrors)), "seq": .number(outcome.seq),
                    "verifiedSeq": outcome.verifiedSeq.map { .number($0) } ?? .null,
                    "removedLeftover": .bool(phases.removedLeftover), "dryRun": .bool(false),
                ]).line)
        }
        let conversionErrors =
            outcome.conversionErrors > 0
            ? "; \(Counted.text(outcome.conversionErrors, "conversion error")): see 'pathmirror mirror errors \(mirror.name)'"
            : "."
        console.write(
            "\(table) was rebuilt: \(Counted.text(outcome.rows, "row")), compared with the tree at seq \(outcome.verifiedSeq ?? 0), now at seq \(outcome.seq)"
                + arguments.completing(conversionErrors))
    }

    func surveyRebuild() throws {
        let progress = ReplayProgress(
            console, mirror.name, "records read", total: try administration.estimatedRows(mirror), rate: rate,
            isQuiet: isQuiet)
        let survey = try administration.surveyRebuild(mirror) { records in
            if records % 500 == 0 { progress.advance(to: Int64(records)) }
        }
        progress.end()
        guard !isQuiet else {
            return console.write(
                JSONOutput.object([
                    "name": .text(mirror.name), "table": .text(table), "records": .number(Int64(survey.records)),
                    "rows": .number(Int64(survey.rows)), "misfits": .number(Int64(survey.conversionErrors)),
                    "seq": .number(survey.seq), "cursor": survey.cursor.map { .number($0) } ?? .null,
                    "leftovers": .list(survey.leftovers.map { .text($0) }), "dryRun": .bool(true),
                ]).line)
        }
        for name in survey.leftovers { console.write("Would remove \(name), the rest of an interrupted build.") }
        guard mirror.definition.keeps == nil else {
            return console.write(
                "Would rebuild \(table) from \(Counted.text(survey.records, "stored version")) of its records: \(Counted.text(survey.rows, "row")); the present table is at seq \(survey.seq)."
            )
        }
        console.write(
            "Would rebuild \(table) from the tree at seq \(survey.seq): \(Counted.text(survey.rows, "row")) of \(Counted.text(survey.records, "record")), \(Counted.text(survey.conversionErrors, "conversion error")); "
                + (survey.cursor.map { "the present table is at seq \($0)." } ?? "there is no table now."))
    }

    // MARK: A part of the log

    func applyAgain(from first: Int64) throws {
        let progress = try entryProgress(from: first)
        let done: (first: Int64, seq: Int64)
        do {
            done = try administration.applyAgain(
                mirror, from: first, entriesAtOnce: progress.pageLimit(atMost: 2_500)
            ) { progress.advance(to: $0 - first + 1) }
        } catch {
            progress.end()
            throw console.ending(
                error,
                "No entry was applied, as all of them are one transaction; it is safe to apply them again: --from \(first)."
            )
        }
        progress.end()
        guard !isQuiet else { return write(done.first, done.seq, touching: nil) }
        console.write(
            arguments.completing(
                "\(table): the records of entries \(done.first) to \(done.seq) match the tree. 'pathmirror log verify' compares the whole table."
            ))
    }

    func surveyAgain(from first: Int64) throws {
        let progress = try entryProgress(from: first)
        let survey = try administration.surveyAgain(mirror, from: first) { progress.advance(to: $0 - first + 1) }
        progress.end()
        guard !isQuiet else { return write(survey.first, survey.head, touching: survey.touching) }
        console.write(
            "Would apply \(Counted.text(max(0, survey.head - survey.first + 1), "entry")), \(survey.first) to \(survey.head), to \(table) again; \(survey.touching) of them \(survey.touching == 1 ? "touches" : "touch") it."
        )
    }

    private func entryProgress(from first: Int64) throws -> ReplayProgress {
        let head = try administration.source.namespace(id: mirror.namespaceID)?.head ?? first
        return ReplayProgress(
            console, mirror.name, total: max(0, head - first + 1), rate: rate, isQuiet: isQuiet)
    }

    private func write(_ first: Int64, _ last: Int64, touching: Int64?) {
        console.write(
            JSONOutput.object([
                "name": .text(mirror.name), "table": .text(table), "from": .number(first), "to": .number(last),
                "entries": .number(max(0, last - first + 1)), "touching": touching.map { .number($0) } ?? .null,
                "dryRun": .bool(touching != nil),
            ]).line)
    }
}

/// Shows the phases of a rebuild, and limits the rate of the first and the last.
private final class RebuildProgress {
    private let console: Console
    private let name: String
    private let rate: Int?
    private let isQuiet: Bool
    private let copying: ReplayProgress
    private var comparing: ReplayProgress?
    private var lines: BuildProgress
    private var rows = 0
    private(set) var removedLeftover = false

    init(_ console: Console, _ name: String, estimate: Int64?, rate: Int?, isQuiet: Bool) {
        self.console = console
        self.name = name
        self.rate = rate
        self.isQuiet = isQuiet
        copying = ReplayProgress(console, name, "rows", total: estimate, rate: rate, isQuiet: isQuiet)
        lines = BuildProgress(console, name, isQuiet: isQuiet)
    }

    var rowsAtOnce: Int { copying.pageLimit(atMost: MirrorBuilder.maxRowsAtOnce) }

    func update(_ progress: MirrorBuilder.Progress) {
        switch progress {
        case .removedLeftover:
            removedLeftover = true
            if !isQuiet { console.error("\(name): removed the rest of an interrupted build") }
        case .copying(let count):
            rows = count
            copying.advance(to: Int64(count))
        case .verifying(let count):
            let progress =
                comparing
                ?? ReplayProgress(console, name, "rows compared", total: Int64(rows), rate: rate, isQuiet: isQuiet)
            comparing = progress
            progress.advance(to: Int64(count))
        case .indexing, .catchingUp, .swapping: lines.update(progress)
        }
    }

    func end() { lines.end() }
}
