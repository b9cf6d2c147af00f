import Postgres

extension PostgresError {
    /// The server refused a value, not the statement: data exceptions, constraints, program limits.
    var isAboutData: Bool {
        guard case .server(let state) = kind else { return kind == .invalidParameter }
        return state.hasPrefix("22") || state.hasPrefix("23") || state.hasPrefix("54")
    }

    /// The same for a table with these columns: an expression that a row can't be computed by may fail with whatever its
    /// functions raise. Clients choose the row, and must not stop the others by it.
    func isAboutRow(of definition: MirrorDefinition) -> Bool {
        if isAboutData { return true }
        guard !definition.generated.isEmpty, case .server(let state) = kind else { return false }
        // What is not supported for this value; routines of other languages; PL/pgSQL; what extensions raise without a state.
        return ["0A", "2F", "38", "39", "P0"].contains { state.hasPrefix($0) } || state == "XX000"
    }
}
