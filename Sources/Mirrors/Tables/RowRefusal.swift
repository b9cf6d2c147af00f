import Postgres

extension PostgresError {
    /// The server refused a value, not the statement: data exceptions, constraints, program limits, what a trigger does to a row.
    var isAboutData: Bool {
        guard case .server(let state) = kind else { return kind == .invalidParameter }
        return ["22", "23", "27", "54"].contains { state.hasPrefix($0) }
    }

    /// A foreign key is in the way: the row that this one refers to is not there yet, or another row still refers to this one.
    var isForeignKey: Bool {
        // foreign_key_violation, and restrict_violation since PostgreSQL 18.
        sqlState == "23503" || sqlState == "23001"
    }
}
