import LogStore
import Mirrors
import Postgres

/// What to say to whoever runs a command as a role that may not do what it does to Pathmirror's own tables: which role may, in place of
/// the statement. What mirrors' tables lack is another role's to give, and said as it is.
enum MissingRight {
    /// Nil for errors of another kind.
    static func text(_ error: any Error) -> String? {
        guard let cause = database(error), cause.sqlState == "42501" else { return nil }
        return
            "\(cause.message). The role that this command connects as may not do that; the owner of schema pathmirror may."
    }

    private static func database(_ error: any Error) -> PostgresError? {
        switch error {
        case LogStoreError.database(let error), MirrorError.log(.database(let error)): error
        default: nil
        }
    }
}
