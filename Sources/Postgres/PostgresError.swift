import CPostgres

/// Everything that can go wrong between this process and PostgreSQL.
///
/// No text of this type holds a password or a parameter's value: where PostgreSQL itself quotes data (data
/// exceptions, constraint violations), the quoting part is dropped and only names of tables and constraints stay.
public struct PostgresError: Error, Sendable, Equatable {
    public enum Kind: Sendable, Hashable {
        /// No connection could be made: wrong address, refused, bad password, unknown database, server starting up.
        case connect
        /// The server refused a statement; the connection is usable. The five-character SQLSTATE says why.
        case server(sqlState: String)
        /// The connection broke, or was already closed. What had been sent may or may not have been done.
        case connectionLost
        /// The server has committed, but its wait for the synchronous standbys was cancelled: a failover may take the commit
        /// back. The connection has been closed. Whoever asks again in a transaction that writes something waits, too.
        case localCommit
        /// A deadline passed. The connection has been closed; what had been sent may or may not have been done.
        case timeout
        /// ``PostgresCancelHandle/abandon()`` was called. The connection has been closed, as for `timeout`.
        case cancelled
        /// A connection string that cannot be used. Nothing was sent.
        case invalidURL
        /// A parameter that PostgreSQL cannot hold, such as text with U+0000. Nothing was sent.
        case invalidParameter
        /// A value of a result is NULL or has another type than the caller asked for.
        case decoding
        /// A call that makes no sense here, or an answer that breaks the protocol.
        case `protocol`
    }

    public var kind: Kind
    /// One sentence without data values.
    public var message: String
    /// The server's DETAIL, left out where it would quote data.
    public var detail: String?
    /// The server's HINT, or what to do.
    public var hint: String?
    /// Which statement: a prepared statement's name, or the beginning of the SQL up to the first literal.
    public var statement: String?
    /// The failing step of a pipeline, counted from 0.
    public var step: Int?
    /// The SQLSTATE that came with the error, whatever its kind: a lost connection may have one too (57P01).
    public var sqlState: String?
    /// The violated constraint, if the server named one.
    public var constraint: String?
    /// The table, if the server named one.
    public var table: String?
    /// No connection could be made as nothing answered in time.
    public internal(set) var isSilentConnect = false
    /// The server reports no error: it has written fewer rows than were sent.
    public internal(set) var isRowsKeptOut = false

    init(_ kind: Kind, _ message: String, hint: String? = nil, statement: String? = nil) {
        self.kind = kind
        self.message = message
        self.hint = hint
        self.statement = statement
        if case .server(let state) = kind {
            sqlState = state
        }
    }

    /// The connection is of no further use, and the outcome of a COMMIT under way is unknown:
    /// look it up before you answer anybody. True for lost connections, deadlines, abandoned calls and local commits.
    public var isConnectionLost: Bool {
        switch kind {
        case .connectionLost, .localCommit, .timeout, .cancelled: true
        case .connect, .server, .invalidURL, .invalidParameter, .decoding, .protocol: false
        }
    }

    /// The transaction rolled back for a reason that may be gone at the next try: serialization failure, deadlock,
    /// or a prepared statement that the server had to drop (it is prepared again by itself).
    public var isRetriable: Bool {
        guard case .server(let state) = kind else { return false }
        switch state {
        case "40001", "40P01", "26000": return true
        case "0A000": return message == Self.changedPlanMessage
        default: return false
        }
    }

    /// The transaction would have written, and the server is a standby or was told to take no writes. Nothing was written.
    public var isReadOnlyServer: Bool { sqlState == Self.readOnlyState }

    static let readOnlyState = "25006"
    static let localCommitMessage =
        "the server has committed this alone: its wait for the synchronous standby was cancelled, and a failover may take it back"
    static let changedPlanMessage = "cached plan must not change result type"
}

extension PostgresError: CustomStringConvertible {
    public var description: String {
        var text = message
        if let sqlState {
            text += " [SQLSTATE \(sqlState)]"
        }
        if let statement {
            text += " in «\(statement)»"
        }
        if let step {
            text += " (step \(step) of the pipeline)"
        }
        if let detail {
            text += "; \(detail)"
        }
        if let hint {
            text += "; \(hint)"
        }
        return text
    }
}

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
