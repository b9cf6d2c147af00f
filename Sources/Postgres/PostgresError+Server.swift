import CPostgres

extension PostgresError {
    /// The error that a failed `PGresult` reports. `isConnectionLost` is what the connection's status says
    /// afterwards.
    static func from(result: OpaquePointer, isConnectionLost: Bool, statement: String?) -> PostgresError {
        let state = text(pathmirror_pq_sqlstate(result)) ?? ""
        let severity = text(pathmirror_pq_severity(result))
        let isFatal = severity == "FATAL" || severity == "PANIC"
        // Without an SQLSTATE the message is libpq's own: about the connection, or about a protocol breach.
        var kind = Kind.server(sqlState: state)
        if isConnectionLost || isFatal {
            kind = .connectionLost
        } else if state.isEmpty {
            kind = .protocol
        }
        let primary = text(pathmirror_pq_message(result)) ?? firstLine(text(PQresultErrorMessage(result)))
        var error = PostgresError(kind, withoutData(primary, state), statement: statement)
        error.sqlState = state.isEmpty ? nil : state
        error.constraint = text(pathmirror_pq_constraint(result))
        error.table = text(pathmirror_pq_table(result))
        error.hint = text(pathmirror_pq_hint(result))
        if !quotesData(state) {
            error.detail = text(pathmirror_pq_detail(result))
        }
        return error
    }

    /// Class 22 is "data exception", class 23 "integrity constraint violation": their texts quote values.
    private static func quotesData(_ state: String) -> Bool {
        state.hasPrefix("22") || state.hasPrefix("23")
    }

    /// `invalid input syntax for type integer: "4711x"` keeps what is before the colon.
    private static func withoutData(_ message: String, _ state: String) -> String {
        guard state.hasPrefix("22"), let colon = message.firstIndex(of: ":") else { return message }
        return String(message[..<colon])
    }

    static func firstLine(_ message: String?) -> String {
        guard let line = message?.split(whereSeparator: \.isNewline).first else { return "no message" }
        return String(line)
    }

    private static func text(_ pointer: UnsafePointer<CChar>?) -> String? {
        guard let pointer else { return nil }
        let text = String(cString: pointer)
        return text.isEmpty ? nil : text
    }
}

/// What names an SQL text in messages: its beginning, ending before the first literal, as that may be data.
func statementLabel(_ sql: String) -> String {
    var label = ""
    var lastWasSpace = true
    for scalar in sql.unicodeScalars {
        if scalar == "'" || scalar == "$" && label.hasSuffix("$") || label.unicodeScalars.count >= 60 {
            return label + "…"
        }
        let isSpace = scalar.properties.isWhitespace
        if isSpace && lastWasSpace {
            continue
        }
        label.unicodeScalars.append(isSpace ? " " : scalar)
        lastWasSpace = isSpace
    }
    return label
}
