import Postgres
import Tree

/// Moves a namespace to another database while clients write to it: see docs/guides/placement.md. A mover may end at any
/// moment; another one continues or undoes the move from the state that it finds. Only one mover of a namespace runs at
/// a time.
public final class NamespaceMover {
    /// A database of a move: its name, and a connection to it.
    public struct Place {
        public let name: String
        public let connection: LogConnection

        public init(name: String, connection: LogConnection) {
            self.name = name
            self.connection = connection
        }

        var isHome: Bool { name == DatabaseRecord.home }
        /// The database's name in placements: nil for the primary database.
        var placement: String? { isHome ? nil : name }
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
    let home: LogConnection
    let source: Place
    let target: Place
    let progress: (Progress) -> Void
    let clock: () -> Int64

    /// - Parameters:
    ///   - home, source, target: three separate sessions, even if databases are the same. `home` is the primary
    ///     database.
    ///   - clock: returns monotonic milliseconds.
    public init(
        _ namespace: String, home: LogConnection, from source: Place, to target: Place, clock: @escaping () -> Int64,
        progress: @escaping (Progress) -> Void
    ) {
        self.namespace = namespace
        self.home = home
        self.source = source
        self.target = target
        self.progress = progress
        self.clock = clock
    }

    /// Executes the request step by step.
    ///
    /// - Throws: `misplaced` if the request can't be executed.
    public func run(_ wish: MoveMachine.Wish) throws {
        try Self.lock(namespace, home, seed: Self.homeSeed)
        try Self.lock(namespace, source.connection, seed: Self.placeSeed)
        try Self.lock(namespace, target.connection, seed: Self.placeSeed)
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
                    throw LogStoreError.misplaced("\"\(namespace)\" was removed from \(source.name) meanwhile.")
                }
                return
            case .done: return
            case .refuse(let reason): throw LogStoreError.misplaced(try text(reason, facts))
            }
        }
    }

    static let homeSeed: Int64 = 7_061_746_864
    static let placeSeed: Int64 = 7_061_746_865

    /// Locks a namespace against other movers until the session ends.
    static func lock(_ namespace: String, _ connection: LogConnection, seed: Int64) throws {
        let isMine = try connection.postgres.execute(
            "select pg_try_advisory_lock(hashtextextended($1, $2))", [.text(namespace), .int8(seed)]
        ).bool(0, 0)
        guard isMine else { throw LogStoreError.misplaced("Somebody else is moving \"\(namespace)\" right now.") }
    }

    // MARK: Refusals

    private func text(_ reason: MoveMachine.Reason, _ facts: MoveFacts) throws -> String {
        let what = "\"\(namespace)\""
        let (from, to) = (source.name, target.name)
        let seeDocs = "Nothing was changed. See \"When a database went back to a backup\" in docs/guides/placement.md."
        switch reason {
        case .unknown:
            let copy = try stranger().map {
                " \(to) has a copy of it that nobody serves, of a move from \($0.source) which began at \($0.madeAt) and of which the home knows nothing. \(seeDocs)"
            }
            return "There is no namespace \(what) in \(from).\(copy ?? "")"
        case .nameTaken:
            return
                "\(to) has a namespace \(what) of its own, which nobody serves from there: it may be an older one, or newer, where a database went back to a backup. \(seeDocs)"
        case .copyOfAnotherMove:
            let copy = try stranger().map { " from \($0.source), which began at \($0.madeAt)" } ?? ""
            return "\(to) has a copy of \(what) of another move\(copy), which the home does not know. \(seeDocs)"
        case .copyIsAhead:
            return
                "The copy of \(what) in \(to) has entries that \(from) has not: \(from) went back to a backup. --abort throws the copy away; a backup of \(from) from a later time has them too. \(seeDocs)"
        case .logShortened:
            return
                "The log of \(what) in \(from) was shortened to behind where its copy in \(to) is: nobody can tell what the copy lacks. Nothing was changed; --abort throws the copy away, then move it anew, with a log that is kept for as long as that takes."
        case .targetLostIt:
            return
                "\(what) has left \(from), and \(to) has not all that it had said it kept: it went back to a backup. All of it is still in \(from), where nobody serves it: remove nothing there. \(seeDocs)"
        case .sourceLostIt:
            return
                "\(from) knows nothing of \(what) any more: it went back to a backup from before that was made, or its id is another's by now. The copy in \(to), if there is one, may be the only one: nothing is removed. \(seeDocs)"
        case .livesInBoth:
            return
                "\(what) lives in \(from) (up to entry \(try head(source))) and in \(to) (up to entry \(try head(target))): it had moved, and a database went back to a backup from before that. \(seeDocs)"
        case .tooLateToAbort: return "\(what) has left \(from) already: run the command without --abort to finish."
        case .unclear:
            return
                "What is found of \(what) fits no move (the home: \(facts.record.map { "\($0)" } ?? "nothing"); \(from): \(facts.source); \(to): \(facts.copy)). \(seeDocs)"
        }
    }

    private func head(_ place: Place) throws -> Int64 {
        try place.connection.namespace(named: namespace)?.head ?? 0
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
            ? " Replace \(Self.secretTarget) by the target's URL, which holds a password." : ""
        let text = """
            "\(namespace)" has mirrors, whose tables do not move. The following commands drop the mirrors, move the namespace, and apply the mirrors again, which fills their tables anew. A history then begins with what the log has.\(secret)
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
    private let home: LogConnection
    private let source: NamespaceMover.Place
    private let target: String

    /// - Parameter target: the target's name. The caller has found that the target can't be reached.
    public init(_ namespace: String, home: LogConnection, from source: NamespaceMover.Place, to target: String) {
        self.namespace = namespace
        self.home = home
        self.source = source
        self.target = target
    }

    /// Ends the move.
    ///
    /// - Throws: `misplaced` if the primary database does not have the move any more, or another mover is moving the
    ///   namespace.
    public func run() throws -> Outcome {
        try NamespaceMover.lock(namespace, home, seed: NamespaceMover.homeSeed)
        try NamespaceMover.lock(namespace, source.connection, seed: NamespaceMover.placeSeed)
        return try NamespaceMover.inTransaction(home) { postgres in
            _ = try postgres.execute("select pathmirror.lock_name($1)", [.text(namespace)])
            guard let record = try NamespaceMover.record(of: namespace, from: source.name, to: target, home) else {
                throw LogStoreError.misplaced("The home knows of no move of \"\(namespace)\" any more.")
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
