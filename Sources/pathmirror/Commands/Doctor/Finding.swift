/// The result of one check of `doctor`, and its fix.
struct Finding: Sendable, Equatable {
    enum Level: String, Sendable, CaseIterable {
        /// As it should be.
        case ok
        /// Noteworthy, possibly intended.
        case note
        /// It works, but may fail, be slow, or be less safe than possible.
        case warning
        /// Something is wrong now.
        case problem
    }

    /// The identifier of the check, for programs: `postgresql.version`. Its meaning never changes.
    let check: String
    let level: Level
    let what: String
    /// The fix, if there is one.
    let fix: String?
    /// The database that the finding concerns. Nil for the primary database and for findings about no database.
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

    /// Returns the finding, whose suggested commands repeat the options of this command.
    func completing(_ arguments: ParsedArguments) -> Finding {
        var copy = Finding(check: check, level: level, what: what, fix: fix.map(arguments.completing))
        copy.database = database
        return copy
    }

    /// Returns the finding for a database other than the primary database.
    func of(_ database: String) -> Finding {
        var copy = Finding(check: check, level: level, what: "\(database): \(what)", fix: fix)
        copy.database = database
        return copy
    }
}
