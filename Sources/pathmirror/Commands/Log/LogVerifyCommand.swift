import LogStore
import Mirrors
import Postgres
import Runtime
import Tree

struct LogVerifyCommand: Command {
    static let specification = CommandSpecification(
        "log verify",
        "rebuilds the tree from the log and compares it with the stored tree and the mirrors; exits 1 if they differ",
        options: [
            .init("ns", "NAME", "the namespace; default \"default\""),
            .init("skip-mirrors", nil, "skips the mirrors"), .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "log verify")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let progress = VerifyProgress(console, isQuiet: arguments.has("json"))
        let outcome: Outcome
        do {
            outcome = try verify(connection, namespace, arguments) { try progress.update($0) }
        } catch {
            progress.end()
            throw console.ending(
                error,
                "\(Counted.text(progress.entries, "entry", "was", "were")) read, and nothing was changed. The same command starts again from the beginning."
            )
        }
        progress.end()
        if arguments.has("json") {
            console.write(json(outcome))
        } else {
            show(outcome, console)
        }
        guard outcome.isClean else {
            throw CommandFailure("The log of \"\(namespace.name)\" differs from the tree or the mirrors.")
        }
    }

    /// The damage found in the tree and in the mirrors.
    private struct Outcome {
        let tree: Verification
        let problems: [String]
        let unbuilt: [String]

        var isClean: Bool { tree.isClean && problems.isEmpty }
    }

    private static let attempts = 5

    private static func verify(
        _ connection: LogConnection, _ namespace: NamespaceRecord, _ arguments: ParsedArguments,
        _ progress: @escaping (Verification.Progress) throws -> Void
    ) throws -> Outcome {
        guard !arguments.has("skip-mirrors") else {
            return Outcome(
                tree: try Verification.run(connection, namespace, progress: progress), problems: [], unbuilt: [])
        }
        var settings = LogConnection.Settings().connection
        settings.statementTimeoutMilliseconds = 0
        let connector = TargetConnector(
            url: try DatabaseLocator.url(arguments), settings: settings, environment: arguments.environment.all)
        for attempt in 1... {
            let found = try MirrorProjection.all(of: namespace, connection, connector)
            defer { for projection in found.projections { projection.close() } }
            do {
                let tree = try Verification.run(
                    connection, namespace, projections: found.projections, progress: progress)
                return Outcome(tree: tree, problems: found.problems, unbuilt: found.unbuilt)
            } catch MirrorError.moved where attempt < attempts {
                // A mirror was replaced during the check.
                continue
            }
        }
        throw MirrorError.moved
    }

    private static func show(_ outcome: Outcome, _ console: Console) {
        let result = outcome.tree
        for problem in result.problems + outcome.problems { console.write(problem) }
        for difference in result.differences {
            console.write(
                "\(difference.path): the log has \(text(difference.logged)), the tree has \(text(difference.stored))"
            )
        }
        if result.differenceCount > result.differences.count {
            console.write("… and \(Counted.text(result.differenceCount - result.differences.count, "more difference"))")
        }
        for name in outcome.unbuilt { console.write("mirror \(name) has no table yet") }
        let mirrors = result.projections.count
        console.write(
            "\(outcome.isClean ? "clean" : "NOT CLEAN"): \(Counted.text(result.entryCount, "entry")) up to seq \(result.head), "
                + Counted.text(result.rowCount, "row") + (mirrors > 0 ? ", \(Counted.text(mirrors, "mirror"))" : ""))
    }

    private static func text(_ node: Node) -> String {
        node.isNull ? "nothing" : String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
    }

    private static func json(_ outcome: Outcome) -> String {
        let result = outcome.tree
        var writer = JSONWriter(form: .export)
        writer.beginObject()
        writer.writeKey("clean", isFirst: true)
        writer.write(.bool(outcome.isClean))
        writer.writeKey("head", isFirst: false)
        writer.writeInteger(result.head)
        writer.writeKey("entries", isFirst: false)
        writer.writeInteger(result.entryCount)
        writer.writeKey("rows", isFirst: false)
        writer.writeInteger(Int64(result.rowCount))
        writer.writeKey("differences", isFirst: false)
        writer.writeInteger(Int64(result.differenceCount))
        writer.writeKey("problems", isFirst: false)
        writer.append(list(result.problems + outcome.problems))
        writer.writeKey("mirrors", isFirst: false)
        writer.append(list(result.projections.map { String($0.dropFirst("mirror ".count)) }))
        writer.writeKey("first", isFirst: false)
        writer.beginObject()
        for (index, difference) in result.differences.enumerated() {
            writer.writeKey(difference.path, isFirst: index == 0)
            writer.beginObject()
            writer.writeKey("logged", isFirst: true)
            writer.write(difference.logged)
            writer.writeKey("stored", isFirst: false)
            writer.write(difference.stored)
            writer.endObject()
        }
        writer.endObject()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private static func list(_ texts: [String]) -> [UInt8] {
        Array(JSONOutput.list(texts.map { .text($0) }).line.utf8)
    }
}

/// Shows the progress of `log verify`.
final class VerifyProgress {
    private let console: Console
    private let isQuiet: Bool
    private var line: ProgressLine
    private var total: (entries: Int64, bulk: BulkRead, rows: Int64) = (0, BulkRead(), 0)
    private var done: (entries: Int64, bulk: BulkRead, rows: Int64) = (0, BulkRead(), 0)
    /// Shows the elapsed time of a comparison without progress of its own.
    private var comparison: ElapsedLine?

    init(_ console: Console, isQuiet: Bool, _ clock: ProgressClock = .system) {
        self.console = console
        self.isQuiet = isQuiet
        line = ProgressLine(console, isQuiet: isQuiet, clock)
    }

    /// The number of entries read.
    var entries: Int64 { done.entries }

    func update(_ progress: Verification.Progress) throws {
        try console.interruption.check()
        comparison?.end()
        comparison = nil
        switch progress {
        case .begins(let entries, let bulk, let rows):
            total = (entries, bulk, rows)
            done = (0, BulkRead(), 0)
        case .entries(let count): done.entries = count
        case .bulk(let read): done.bulk = read
        case .rows(let count): done.rows = count
        case .comparing(let name):
            comparison = ElapsedLine(console, "verify: comparing \(name)", isQuiet: isQuiet)
            return
        }
        guard line.isDue() else { return }
        line.show(text)
    }

    private var text: String {
        let seconds = max(0.001, Double(line.elapsed) / 1_000)
        var text = "verify: \(done.entries) of \(total.entries) entries"
        if done.bulk.leaves > 0 { text += ", \(done.bulk.leaves) leaves of them" }
        if done.rows > 0 { text += ", \(done.rows) of \(total.rows) rows of the tree" }
        text += ", \(Int(Double(done.entries + done.bulk.leaves + done.rows) / seconds)) a second"
        let all = total.entries + total.bulk.work + total.rows
        let share = Double(done.entries + done.bulk.work + done.rows) / Double(max(1, all))
        guard share > 0 else { return text }
        return text
            + ", \(Int(min(1, share) * 100)) %, \(ProgressLine.left(afterSeconds: seconds, share: min(1, share))) left"
    }

    /// Clears the line.
    func end() {
        comparison?.end()
        comparison = nil
        line.end()
    }
}
