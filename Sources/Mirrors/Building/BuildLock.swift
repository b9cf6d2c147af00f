import Postgres

/// Who makes a mirror's table anew, or changes it, does so alone: an advisory lock in the table's database.
enum BuildLock {
    enum Duration: String {
        /// Until it is released, or the session ends.
        case untilReleased = "pg_try_advisory_lock"
        case untilTheTransactionEnds = "pg_try_advisory_xact_lock"
    }

    /// False where somebody else has it.
    static func holds(
        _ mirror: [UInt8], _ target: PostgresConnection, _ duration: Duration
    ) throws(PostgresError) -> Bool {
        try target.execute(
            "select \(duration.rawValue)(hashtextextended($1, 0))", [.text(name(mirror))]
        ).bool(0, 0)
    }

    /// Lets others have it.
    static func release(_ mirror: [UInt8], _ target: PostgresConnection) {
        guard target.isOpen else { return }
        _ = try? target.execute("select pg_advisory_unlock(hashtextextended($1, 0))", [.text(name(mirror))])
    }

    /// What is said where somebody else has it.
    static func refusal(_ mirror: String) -> MirrorError {
        .refused("Mirror \"\(mirror)\" is being built by somebody else: try again when they are done, or stop them.")
    }

    private static func name(_ mirror: [UInt8]) -> String { "pathmirror build \(Leftovers.shadowName(mirror))" }
}
