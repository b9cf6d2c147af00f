@testable public import LogStore
public import Postgres

extension LogConnection {
    /// For what tests do behind the log's back.
    public var sql: PostgresConnection { postgres }
}
