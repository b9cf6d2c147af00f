import LogStore
import Postgres
import Runtime
import Tree

/// Moves a namespace to another database.
struct NamespaceMoveCommand: Command {
    static let specification = CommandSpecification(
        "namespace move",
        "moves a namespace to another database while clients write; resumes an interrupted move",
        positionals: ["NS"],
        options: [
            .init("to", "DB", "the target database, or home for the primary database"),
            .init("abort", nil, "removes the copy of an interrupted move"),
            .init(
                "abandon", nil,
                "with --abort: abandons a move to a database that is permanently lost; the rest of the copy stays"),
            .json,
        ] + DatabaseOptions.primary)
    static let whenInterrupted =
        "The same command resumes the move; --abort removes the copy, unless the namespace has left its database already."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try NamespaceOptions.name(arguments)
        guard arguments.has("abort") || !arguments.has("abandon") else { throw UsageError("--abandon needs --abort.") }
        let primaryURL = try DatabaseLocator.primary(arguments)
        let primary = try DatabaseLocator.open(primaryURL, console, "namespace move")
        defer { primary.close() }
        let interrupted = try primary.move(of: name)
        guard let target = arguments["to"] ?? interrupted?.target else {
            guard arguments.has("abort") else { throw UsageError("--to is missing.") }
            throw CommandFailure(
                "The primary database has no move of \(name). If it was restored from a backup, name the database that may have a copy with --to DB."
            )
        }
        if let interrupted, interrupted.target != target {
            throw CommandFailure(
                "\(name) is being moved to \(interrupted.target): complete that move first, or --abort it.")
        }
        let moving = NamespaceMoving(arguments, console, primary, primaryURL)
        if arguments.has("abandon") {
            guard let interrupted else {
                throw CommandFailure("The primary database has no move of \(name): there is nothing to abandon.")
            }
            let abandoned = try moving.abandon(name, from: interrupted.source, to: target)
            return console.write(arguments.has("json") ? abandoned.json(name) : abandoned.text(name))
        }
        let moved = try moving.move(name, to: target, isAborting: arguments.has("abort"))
        console.write(arguments.has("json") ? moved.json(name) : moved.text(name))
    }
}

/// The result of a move.
struct MovedNamespace {
    let source: String
    let target: String
    /// The database that has the namespace now; nil if none has it any more.
    let database: String?
    /// How long writers were blocked; nil if they were not.
    let milliseconds: Int64?
    /// Sentences about the loss of a namespace with the target of an abandoned move.
    var lost: [String] = []

    func json(_ name: String) -> String {
        JSONOutput.object([
            "name": .text(name), "from": .text(source), "to": .text(target), "database": JSONOutput(database),
            "milliseconds": milliseconds.map { .number($0) } ?? .null, "lost": .list(lost.map { .text($0) }),
        ]).line
    }

    func text(_ name: String) -> String {
        guard let database else { return lost.joined(separator: "\n") }
        guard source != target else { return "\(name) is in \(database) already." }
        let stood = milliseconds.map { " Writers waited for \($0) ms." } ?? ""
        return "\(name) is in \(database).\(stood)"
    }
}

/// Moves namespaces for commands, and shows the progress.
struct NamespaceMoving {
    private let arguments: ParsedArguments
    private let console: Console
    private let primary: LogConnection
    private let primaryURL: PostgresURL

    init(_ arguments: ParsedArguments, _ console: Console, _ primary: LogConnection, _ primaryURL: PostgresURL) {
        self.arguments = arguments
        self.console = console
        self.primary = primary
        self.primaryURL = primaryURL
    }

    /// Moves a namespace, or resumes an interrupted move.
    ///
    /// - Throws: `misplaced` if the move is not possible.
    func move(_ name: String, to target: String, isAborting: Bool = false) throws -> MovedNamespace {
        let interrupted = try primary.move(of: name)
        let source = try interrupted?.source ?? primary.database(of: name)?.name ?? DatabaseRecord.primary
        guard source != target else { return try stays(name, in: source) }
        if !isAborting, target != DatabaseRecord.primary, interrupted == nil,
            try DatabaseLocator.record(target, primary).isDraining
        {
            throw CommandFailure("\(target) accepts no new namespaces: it is being drained.")
        }
        let from = try database(source)
        defer { from.connection.close() }
        let to = try interrupted == nil ? database(target) : databaseOfMove(target, of: name)
        defer { to.connection.close() }
        var stood: Int64?
        var rows = 0
        let isQuiet = arguments.has("json")
        var line = ProgressLine(console, isQuiet: isQuiet, .system)
        let estimate = try from.connection.namespace(named: name).flatMap {
            try from.connection.estimatedRows($0.id, below: .root)
        }
        let note = { (progress: NamespaceMover.Progress) in
            switch progress {
            case .copied(let more): rows += more
            case .left(let milliseconds): stood = milliseconds
            case .copying, .followed, .clearing: break
            }
            if line.isDue() {
                line.show("\(name): \(Self.text(progress, rows: rows, of: estimate, milliseconds: line.elapsed))")
            }
        }
        let mover = NamespaceMover(
            name, primary: primary, from: from, to: to, clock: { Clock.monotonicMilliseconds }, progress: note)
        defer { line.end() }
        do {
            try mover.run(isAborting ? .abort : .move)
        } catch LogStoreError.misplaced(let reason) {
            throw CommandFailure(reason)
        } catch {
            throw CommandFailure("\(error)\(Self.right(error, source, target)) \(NamespaceMoveCommand.whenInterrupted)")
        }
        return MovedNamespace(
            source: source, target: target, database: isAborting ? source : target, milliseconds: stood)
    }

    /// The target of an interrupted move.
    private func databaseOfMove(_ target: String, of name: String) throws -> NamespaceMover.Database {
        do {
            return try database(target)
        } catch {
            try console.interruption.check()
            guard target != DatabaseRecord.primary, LogStoreError(error).isUnreachable else { throw error }
            throw CommandFailure(
                "\(target) can't be reached: \(error). Nothing was changed. If that database is permanently lost, 'pathmirror namespace move \(name) --abort --abandon' abandons the move."
            )
        }
    }

    /// Abandons a move whose target is permanently lost.
    ///
    /// - Throws: if the target can be reached: the move can then be aborted there.
    func abandon(_ name: String, from source: String, to target: String) throws -> MovedNamespace {
        guard try isGone(target) else {
            throw CommandFailure(
                "\(target) can be reached: use --abort without --abandon to remove the copy. Nothing was changed.")
        }
        let from = try database(source)
        defer { from.connection.close() }
        let lost: [String]
        do {
            lost = Self.losses(
                try AbandonedMove(name, primary: primary, from: from, to: target).run(), name, source, target)
        } catch LogStoreError.misplaced(let reason) {
            throw CommandFailure(reason)
        }
        return MovedNamespace(
            source: source, target: target, database: lost.isEmpty ? source : nil, milliseconds: nil, lost: lost)
    }

    private static func losses(
        _ outcome: AbandonedMove.Outcome, _ name: String, _ source: String, _ target: String
    ) -> [String] {
        switch outcome {
        case .stays: []
        case .removed: ["\(name) was removed from \(source) before."]
        case .isLost(let id):
            [
                "\(name) had left \(source) and is lost with \(target): no gateway serves it. Its name can be used again."
                    + (id.map {
                        " The rows that \(source) has not removed yet are still there, under the number \($0) of pathmirror.former_namespace."
                    } ?? "")
            ]
        }
    }

    /// Returns whether a database's recorded address does not lead to that database, or no address is recorded.
    private func isGone(_ name: String) throws -> Bool {
        guard name != DatabaseRecord.primary, let record = try primary.databases().first(where: { $0.name == name })
        else {
            return name != DatabaseRecord.primary
        }
        do {
            let there = try LogConnection(
                try DatabaseLogins(arguments).url(of: record, primary: primaryURL)
                    .withApplicationName("pathmirror namespace move"))
            defer { there.close() }
            console.interruption.stops(there.cancelHandle)
            try there.check(is: record)
            return false
        } catch LogStoreError.anotherInstallation {
            return true
        } catch {
            try console.interruption.check()
            guard LogStoreError(error).isUnreachable else { throw error }
            return true
        }
    }

    private func stays(_ name: String, in source: String) throws -> MovedNamespace {
        let there = try database(source)
        defer { there.connection.close() }
        guard try there.connection.namespace(named: name) != nil else {
            throw CommandFailure(
                "\"\(name)\" is placed in \(source), but does not exist there: see 'pathmirror doctor'. Nothing was changed."
            )
        }
        return MovedNamespace(source: source, target: source, database: source, milliseconds: nil)
    }

    /// - Parameter estimate: the estimated number of rows, if known.
    private static func text(
        _ progress: NamespaceMover.Progress, rows: Int, of estimate: Int64?, milliseconds: Int64
    ) -> String {
        guard progress != .clearing else { return "clearing up" }
        let seconds = max(0.001, Double(milliseconds) / 1_000)
        let text = "\(Counted.text(rows, "row")) copied, \(Int(Double(rows) / seconds)) a second"
        guard let estimate, rows > 0, rows < estimate else { return text }
        let share = Double(rows) / Double(estimate)
        return text + ", \(Int(share * 100)) %, \(ProgressLine.left(afterSeconds: seconds, share: share)) left"
    }

    /// Names the missing right, if the error is about a right.
    private static func right(_ error: any Error, _ source: String, _ target: String) -> String {
        guard case .database(let cause) = LogStoreError(error), cause.sqlState == "42501", cause.hint == nil else {
            return ""
        }
        let databases = [DatabaseRecord.primary, source, target].reduce(into: [String]()) { list, name in
            if !list.contains(name) { list.append(name) }
        }
        return ". Moves need the owner of schema pathmirror in \(databases.joined(separator: ", "))."
    }

    private func database(_ name: String) throws -> NamespaceMover.Database {
        let record = try name == DatabaseRecord.primary ? nil : DatabaseLocator.record(name, primary)
        let url = try record.map { try DatabaseLogins(arguments).url(of: $0, primary: primaryURL) } ?? primaryURL
        return NamespaceMover.Database(
            name: name, connection: try DatabaseLocator.open(url, console, "namespace move", of: record))
    }
}
