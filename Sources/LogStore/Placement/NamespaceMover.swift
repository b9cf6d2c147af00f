import Postgres

/// Moves a namespace to another database while clients write: see docs/placement.md. It may end at any instant; another one goes
/// on, or back, from what it finds. One mover of a namespace at a time.
public final class NamespaceMover {
    /// A database of a move: how it is called, and two sessions' worth of access to it.
    public struct Place {
        public let name: String
        public let connection: LogConnection

        public init(name: String, connection: LogConnection) {
            self.name = name
            self.connection = connection
        }

        var isHome: Bool { name == DatabaseRecord.home }
        /// As placements name it.
        var placement: String? { isHome ? nil : name }
    }

    /// How far it is, for people.
    public enum Progress: Sendable, Equatable {
        case copying
        /// So many more rows.
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
    ///   - home, source, target: three sessions, also where databases are the same.
    ///   - clock: monotonic milliseconds.
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

    /// Does what is wished, step by step.
    ///
    /// - Throws: `misplaced` where it can't be done.
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

    /// Keeps other movers of a namespace away for as long as the session lasts.
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
        let seeDocs = "Nothing was changed. See \"When a database went back to a backup\" in docs/placement.md."
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
