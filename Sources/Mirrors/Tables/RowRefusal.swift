import Postgres

extension PostgresError {
    /// The server refused a value, not the statement: data exceptions, constraints, program limits, rows that a trigger keeps out.
    var isAboutData: Bool {
        guard case .server(let state) = kind else { return kind == .invalidParameter }
        return state.hasPrefix("22") || state.hasPrefix("23") || state.hasPrefix("54") || isRowsKeptOut
    }
}
