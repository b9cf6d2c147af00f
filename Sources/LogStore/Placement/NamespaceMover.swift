import Postgres
import Tree

/// Moves a namespace to another database while clients write to it: see docs/guides/placement.md. A mover may end at any
/// moment; another one continues or undoes the move from the state that it finds. Only one mover of a namespace runs at
/// a time.
public final class NamespaceMover {
    /// A database of a move: its name, and a connection to it.
    public struct Database {
        public let name: String
        public let connection: LogConnection

        public init(name: String, connection: LogConnection) {
            self.name = name
            self.connection = connection
        }

        var isPrimary: Bool { name == DatabaseRecord.primary }
        /// The database's name in placements: nil for the primary database.
        var placement: String? { isPrimary ? nil : name }
    }

    /// The progress of a move, for display.
    public enum Progress: Sendable, Equatable {
        case copying
        /// The number of rows copied since the last report.
        case copied(rows: Int)
        case followed(entries: Int64)
        case left(milliseconds: Int64)
        case clearing
    }

    let namespace: String
    let primary: LogConnection
    let source: Database
    let target: Database
    let progress: (Progress) -> Void
    let clock: () -> Int64

    /// - Parameters:
    ///   - home, source, target: three separate sessions, even if databases are the same. `primary` is the primary
    ///     database.
    ///   - clock: returns monotonic milliseconds.
    public init(
        _ namespace: String, primary: LogConnection, from source: Database, to target: Database,
        clock: @escaping () -> Int64,
        progress: @escaping (Progress) -> Void
    ) {
        self.namespace = namespace
        self.primary = primary
        self.source = source
        self.target = target
        self.progress = progress
        self.clock = clock
    }

    /// Executes the request step by step.
    ///
    /// - Throws: `misplaced` if the request can't be executed.
    public func run(_ wish: MoveMachine.Wish) throws {
        try Self.lock(namespace, primary, seed: Self.primarySeed)
        try Self.lock(namespace, source.connection, seed: Self.placementSeed)
        try Self.lock(namespace, target.connection, seed: Self.placementSeed)
        while true {
            let facts = try self.facts()
            switch MoveMachine.next(wish, facts) {
            case .begin: try begin(adopting: nil)
            case .adopt: try begin(adopting: try stranger(), isAborting: wish == .abort)
            case .makeCopy: try makeCopy()
            case .follow:
                do {
                    try follow()
                } catch is CopyDiverged {
                    continue
                }
            case .arrive: try arrive()
            case .change: try change()
            case .clearUp: return try clearUp()
            case .forget: return try forget()
            case .goBack:
                try goBack()
                guard wish == .abort else {
                    throw LogStoreError.misplaced("\"\(namespace)\" was removed from \(source.name) during the move.")
                }
                return
            case .done: return
            case .refuse(let reason): throw LogStoreError.misplaced(try text(reason, facts))
            }
        }
    }

    static let primarySeed: Int64 = 7_061_746_864
    static let placementSeed: Int64 = 7_061_746_865

    /// Locks a namespace against other movers until the session ends.
    static func lock(_ namespace: String, _ connection: LogConnection, seed: Int64) throws {
        let isMine = try connection.postgres.execute(
            "select pg_try_advisory_lock(hashtextextended($1, $2))", [.text(namespace), .int8(seed)]
        ).bool(0, 0)
        guard isMine else {
            throw LogStoreError.misplaced("Another process is moving \"\(namespace)\": wait until it ends.")
        }
    }

    // MARK: Refusals

    private func text(_ reason: MoveMachine.Reason, _ facts: MoveFacts) throws -> String {
        let what = "\"\(namespace)\""
        let (from, to) = (source.name, target.name)
        let seeDocs = "Nothing was changed. See \"When a database went back to a backup\" in docs/guides/placement.md."
        switch reason {
        case .unknown:
            let copy = try stranger().map {
                " \(to) has a copy of \(what) that no gateway serves, made by a move from \($0.source) that began at \($0.madeAt). The primary database has no record of that move. \(seeDocs)"
            }
            return "There is no namespace \(what) in \(from).\(copy ?? "")"
        case .nameTaken:
            return
                "\(to) has a namespace \(what) of its own, which no gateway serves: it may be older, or newer if a database was restored from a backup. \(seeDocs)"
        case .copyOfAnotherMove:
            let copy = try stranger().map { " from \($0.source) that began at \($0.madeAt)" } ?? ""
            return
                "\(to) has a copy of \(what) made by another move\(copy). The primary database has no record of that move. \(seeDocs)"
        case .copyIsAhead:
            return
                "The copy of \(what) in \(to) has entries that \(from) does not have: \(from) was restored from a backup. --abort deletes the copy; a later backup of \(from) has these entries too. \(seeDocs)"
        case .logShortened:
            return
                "The log of \(what) in \(from) no longer reaches back to the last entry of the copy in \(to), so the copy can't be completed. Nothing was changed. Delete the copy with --abort, keep the log for as long as the move takes, and move \(what) again."
        case .targetLostIt:
            return
                "\(what) has left \(from), but \(to) lacks data that it had confirmed: \(to) was restored from a backup. \(from) still has all data of \(what), which no gateway serves: remove nothing in \(from). \(seeDocs)"
        case .sourceLostIt:
            return
                "\(from) has no record of \(what): it was restored from a backup that is older than \(what), or another namespace has that id now. A copy in \(to) may be the only one, so nothing is removed. \(seeDocs)"
        case .livesInBoth:
            return
                "\(what) is in \(from) (up to entry \(try head(source))) and in \(to) (up to entry \(try head(target))): after the move, a database was restored from an older backup. \(seeDocs)"
        case .tooLateToAbort:
            return "\(what) has already left \(from): run the command without --abort to finish the move."
        case .unclear:
            return
                "The records of \(what) fit no step of a move (primary database: \(facts.record.map { "\($0)" } ?? "nothing"); \(from): \(facts.source); \(to): \(facts.copy)). \(seeDocs)"
        }
    }

    private func head(_ database: Database) throws -> Int64 {
        try database.connection.namespace(named: namespace)?.head ?? 0
    }
}

/// The tables of mirrors do not move, so only namespaces without mirrors can move.
extension NamespaceMover {
    /// Makes sure that the namespace has no mirrors in the source.
    ///
    /// - Throws: `misplaced`, with the commands that drop the mirrors, move the namespace and apply the mirrors again.
    func refuseMirrors(_ id: Int64) throws {
        let mirrors = try source.connection.mirrors().filter { $0.namespaceID == id }
        guard !mirrors.isEmpty else { return }
        let drops = mirrors.map { "pathmirror mirror drop \($0.name) --ns \(namespace) --yes &&" }
        let definitions = mirrors.map { Self.definition($0) }.joined(separator: ",\n")
        let secret =
            mirrors.contains { Self.hasSecret($0) }
            ? " Replace \(Self.secretTarget) with the target's URL, which holds a password." : ""
        let text = """
            "\(namespace)" has mirrors, whose tables do not move. The following commands drop the mirrors, move the namespace, and apply the mirrors again, which fills their tables again. A history then begins at the oldest entry of the log.\(secret)
            \(drops.joined(separator: "\n"))
            pathmirror namespace move \(namespace) --to \(target.name) &&
            pathmirror mirror apply - --ns \(namespace) --yes <<'END'
            [\(definitions)]
            END
            """
        throw LogStoreError.misplaced(text)
    }

    private static let secretTarget = "TARGET"

    private static func hasSecret(_ mirror: MirrorRecord) -> Bool {
        guard let target = mirror.target, !target.hasPrefix("env:") else { return false }
        return (try? PostgresURL(target))?.hasPassword ?? true
    }

    /// Returns the definition as `mirror apply` reads it. The catalog stores the target separately.
    private static func definition(_ mirror: MirrorRecord) -> String {
        let text = String(decoding: mirror.definition, as: UTF8.self)
        guard let target = mirror.target, let brace = text.firstIndex(of: "{") else { return text }
        let value = JSONWriter.encode(.string(hasSecret(mirror) ? secretTarget : target), form: .plain)
        return "{\"target\": \(String(decoding: value, as: UTF8.self)), \(text[text.index(after: brace)...])"
    }
}

/// Ends a move whose target is lost, using only the primary database and the source. Does not change anything in the
/// target.
public struct AbandonedMove {
    /// The outcome for the namespace.
    public enum Outcome: Sendable, Equatable {
        /// The namespace lives in the source and never left it.
        case stays
        /// The namespace had been removed from the source for good.
        case removed
        /// The namespace had left the source, so only the target had it. The primary database now records the source as
        /// its database, where it does not exist, so its name can be used again. Rows that the source has not removed
        /// yet are still there under `id`, which is nil if the source has no trace of the namespace.
        case isLost(id: Int64?)

        fileprivate var isLost: Bool { if case .isLost = self { true } else { false } }
    }

    private let namespace: String
    private let primary: LogConnection
    private let source: NamespaceMover.Database
    private let target: String

    /// - Parameter target: the target's name. The caller has found that the target can't be reached.
    public init(_ namespace: String, primary: LogConnection, from source: NamespaceMover.Database, to target: String) {
        self.namespace = namespace
        self.primary = primary
        self.source = source
        self.target = target
    }

    /// Ends the move.
    ///
    /// - Throws: `misplaced` if the primary database does not have the move any more, or another mover is moving the
    ///   namespace.
    public func run() throws -> Outcome {
        try NamespaceMover.lock(namespace, primary, seed: NamespaceMover.primarySeed)
        try NamespaceMover.lock(namespace, source.connection, seed: NamespaceMover.placementSeed)
        return try NamespaceMover.inTransaction(primary) { postgres in
            _ = try postgres.execute("select pathmirror.lock_name($1)", [.text(namespace)])
            guard let record = try NamespaceMover.record(of: namespace, from: source.name, to: target, primary) else {
                throw LogStoreError.misplaced(
                    "The primary database no longer has a record of a move of \"\(namespace)\".")
            }
            let outcome = try outcome(record)
            if outcome.isLost || record.hasLeft {
                _ = try postgres.execute(
                    "select pathmirror.replace_placement($1, $2)",
                    [.text(namespace), source.placement.map { .text($0) } ?? .null(.text)])
            }
            _ = try postgres.execute(
                "delete from pathmirror.namespace_move where namespace = $1 and id = $2::text::uuid",
                [.text(namespace), .text(record.id)])
            return outcome
        }
    }

    private func outcome(_ record: NamespaceMover.Record) throws -> Outcome {
        switch try NamespaceMover.sourceFact(record, of: namespace, source.connection) {
        case .living: .stays
        case .removed: .removed
        case .former: .isLost(id: record.sourceID)
        case .unknown: .isLost(id: nil)
        }
    }
}
