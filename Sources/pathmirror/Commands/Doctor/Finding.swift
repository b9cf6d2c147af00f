/// One thing that `doctor` has looked at, and what to do about it.
struct Finding: Sendable, Equatable {
    enum Level: String, Sendable, CaseIterable {
        /// As it should be.
        case ok
        /// Worth knowing; maybe meant so.
        case note
        /// It works, and something will go wrong, or be slow, or be less safe than it could.
        case warning
        /// Something is wrong now.
        case problem
    }

    /// What was looked at, for programs: `postgresql.version`. Never changes its meaning.
    let check: String
    let level: Level
    let what: String
    /// What to do, where there is something.
    let fix: String?
    /// The database that it is about, besides the home; nil for the home and for what is of none.
    var database: String?

    static func ok(_ check: String, _ what: String) -> Finding {
        Finding(check: check, level: .ok, what: what, fix: nil)
    }
    static func note(_ check: String, _ what: String, fix: String? = nil) -> Finding {
        Finding(check: check, level: .note, what: what, fix: fix)
    }
    static func warning(_ check: String, _ what: String, fix: String) -> Finding {
        Finding(check: check, level: .warning, what: what, fix: fix)
    }
    static func problem(_ check: String, _ what: String, fix: String) -> Finding {
        Finding(check: check, level: .problem, what: what, fix: fix)
    }

    /// The finding with the options of this command in the commands that it suggests.
    func completing(_ arguments: ParsedArguments) -> Finding {
        var copy = Finding(check: check, level: level, what: what, fix: fix.map(arguments.completing))
        copy.database = database
        return copy
    }

    /// The same of a database besides the home.
    func of(_ database: String) -> Finding {
        var copy = Finding(check: check, level: level, what: "\(database): \(what)", fix: fix)
        copy.database = database
        return copy
    }
}
