/// Rows that a statement did not write although the server reports no error.
extension PostgresError {
    /// The SQLSTATE of triggered_data_change_violation. The server has it for other things as well.
    private static let keptOutState = "27000"

    /// A trigger of the table returned no row, or a rule replaces the statement.
    ///
    /// - Parameter step: the step of the pipeline, if it was one.
    public static func rowsKeptOut(sent: Int, written: Int, step: Int? = nil) -> PostgresError {
        var error = PostgresError(
            .server(sqlState: keptOutState),
            sent == 1 ? "a trigger keeps it out" : "a trigger or a rule keeps out \(sent - written) of \(sent) rows")
        error.step = step
        error.isRowsKeptOut = true
        return error
    }

    /// A rule does something else in place of the statement: no row is written until it is dropped.
    public static func replaced(by rule: String, on table: String) -> PostgresError {
        // object_not_in_prerequisite_state
        PostgresError(
            .server(sqlState: "55000"), "the rule \(rule) replaces what is written to \(table): drop the rule")
    }
}

extension PostgresConnection {
    /// Drops a prepared statement, which is prepared again at its next use.
    public func forget(_ statement: PostgresStatement) throws(PostgresError) {
        guard let known = prepared.removeValue(forKey: statement.name) else { return }
        let name = String(decoding: known.serverName.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        try executeScript("deallocate \(quotedIdentifier(name))")
    }
}
