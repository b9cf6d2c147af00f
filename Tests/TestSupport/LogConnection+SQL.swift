// Only builds with tests can access a module's internal declarations. Release builds compile this target as well, so
// they omit this.
#if DEBUG
    public import Postgres

    @testable public import LogStore

    extension LogConnection {
        /// The underlying connection, for tests that change the database directly.
        public var sql: PostgresConnection { postgres }
    }
#endif
