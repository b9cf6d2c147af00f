public import Postgres

@testable public import LogStore

extension LogConnection {
    /// For what tests do behind the log's back.
    public var sql: PostgresConnection { postgres }
}
