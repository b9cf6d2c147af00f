import LogStore
import Mirrors
import Postgres

/// What to say to whoever runs a command as a role that may not do what it does to Pathmirror's own tables: which role may, in place of
/// the statement. What mirrors' tables lack is another role's to give, and said as it is, but for the privilege that PostgreSQL's hint
/// names: see `SchemaMaking`.
enum MissingRight {
    /// Nil for errors of another kind.
    static func text(_ error: any Error) -> String? {
        guard let cause = database(error), cause.sqlState == "42501", cause.kind != .connect else { return nil }
        // It names the privilege, and who can give it.
        if let hint = cause.hint { return "\(cause.message): \(hint)." }
        return
            "\(cause.message). The role that this command connects as may not do that; the owner of schema pathmirror may."
    }

    private static func database(_ error: any Error) -> PostgresError? {
        switch error {
        case LogStoreError.database(let error), MirrorError.log(.database(let error)): error
        case MirrorError.database(let error) where error.hint != nil: error
        case let error as PostgresError where error.hint != nil: error
        default: nil
        }
    }
}
