// Only builds with tests can see what a module keeps to itself; release builds make this target, too, and leave this out.
#if DEBUG
    public import Postgres

    @testable public import LogStore

    extension LogConnection {
        /// For what tests do behind the log's back.
        public var sql: PostgresConnection { postgres }
    }
#endif
