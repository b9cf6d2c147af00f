import Postgres

/// Which programs serve a database, by what their connections are called.
public struct GatewayFacts: Sendable, Equatable {
    /// How many gateways there are of each program, such as `0.1.0, schema 16`; "" is of those that don't say what they are.
    public var programs: [String: Int64] = [:]

    public init() {}
}

extension LogConnection {
    /// Looks for the one connection of each gateway that follows announcements. Every user is told what connections are called.
    public func gatewayFacts() throws(LogStoreError) -> GatewayFacts {
        try translated { () throws(PostgresError) in
            var facts = GatewayFacts()
            let rows = try postgres.execute(
                """
                select substr(application_name, length('pathmirror tail') + 2), count(*) from pg_stat_activity
                where datname = current_database()
                    and (application_name = 'pathmirror tail' or starts_with(application_name, 'pathmirror tail '))
                group by 1
                """)
            for row in 0..<rows.rowCount { facts.programs[try rows.string(row, 0)] = try rows.int64(row, 1) }
            return facts
        }
    }
}
