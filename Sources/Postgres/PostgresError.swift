import CPostgres

/// An error between this process and PostgreSQL.
///
/// The texts never contain a password or a parameter's value. Where PostgreSQL itself quotes data (data exceptions,
/// constraint violations), the quoted part is dropped and only the names of tables and constraints remain.
public struct PostgresError: Error, Sendable, Equatable {
    public enum Kind: Sendable, Hashable {
        /// No connection could be opened: wrong address, refused, bad password, unknown database, server starting up.
        case connect
        /// The server rejected a statement; the connection is usable. The five-character SQLSTATE is the reason.
        case server(sqlState: String)
        /// The connection broke, or was already closed. The outcome of statements already sent is unknown.
        case connectionLost
        /// The server has committed, but its wait for the synchronous standbys was cancelled: a failover may lose the
        /// commit. The connection has been closed.
        /// A later transaction that writes something waits for the standbys as well.
        case localCommit
        /// A deadline passed. The connection has been closed.
        /// The outcome of statements already sent is unknown.
        case timeout
        /// ``PostgresCancelHandle/abandon()`` was called. The connection has been closed, as for `timeout`.
        case cancelled
        /// The connection string is invalid. Nothing was sent.
        case invalidURL
        /// PostgreSQL cannot store a parameter, such as text with U+0000. Nothing was sent.
        case invalidParameter
        /// A value of a result is NULL or has another type than requested.
        case decoding
        /// The call is not allowed in the current state, or the server's answer violates the protocol.
        case `protocol`
    }

    public var kind: Kind
    /// One sentence without data values.
    public var message: String
    /// The server's DETAIL, omitted if it would quote data.
    public var detail: String?
    /// The server's HINT, or this module's own advice.
    public var hint: String?
    /// The statement: a prepared statement's name, or the beginning of the SQL up to the first literal.
    public var statement: String?
    /// The index of the failing step in a pipeline, counted from 0.
    public var step: Int?
    /// The SQLSTATE of the error, of any kind: a lost connection may have one too (57P01).
    public var sqlState: String?
    /// The violated constraint, if the server named one.
    public var constraint: String?
    /// The table, if the server named one.
    public var table: String?
    /// Whether no connection could be opened because no host answered in time.
    public internal(set) var isSilentConnect = false
    /// Whether the server has written fewer rows than were sent, without reporting an error.
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

    /// Whether the connection is unusable. The outcome of a COMMIT in flight is then unknown and must be looked up
    /// before it is reported. True for lost connections, deadlines, abandoned calls and local commits.
    public var isConnectionLost: Bool {
        switch kind {
        case .connectionLost, .localCommit, .timeout, .cancelled: true
        case .connect, .server, .invalidURL, .invalidParameter, .decoding, .protocol: false
        }
    }

    /// Whether the transaction was rolled back for a reason that may not recur: a serialization failure, a deadlock, or
    /// a prepared statement that the server dropped (the next use prepares it again).
    public var isRetriable: Bool {
        guard case .server(let state) = kind else { return false }
        switch state {
        case "40001", "40P01", "26000": return true
        case "0A000": return message == Self.changedPlanMessage
        default: return false
        }
    }

    /// Whether the transaction tried to write, and the server is a standby or configured to accept no writes. Nothing
    /// was written.
    public var isReadOnlyServer: Bool { sqlState == Self.readOnlyState }

    static let readOnlyState = "25006"
    static let localCommitMessage =
        "the server has committed without its synchronous standby: the wait for the standby was cancelled, and a failover may lose the commit"
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
    /// Creates an error from a failed `PGresult`. `isConnectionLost` is the connection's status after the failure.
    static func from(result: OpaquePointer, isConnectionLost: Bool, statement: String?) -> PostgresError {
        let state = text(pathmirror_pq_sqlstate(result)) ?? ""
        let severity = text(pathmirror_pq_severity(result))
        let isFatal = severity == "FATAL" || severity == "PANIC"
        // Without an SQLSTATE the message is libpq's own: about the connection, or about a protocol violation.
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

    /// Whether the texts of errors with this SQLSTATE quote values: class 22 is "data exception", class 23 "integrity
    /// constraint violation".
    private static func quotesData(_ state: String) -> Bool {
        state.hasPrefix("22") || state.hasPrefix("23")
    }

    /// Removes quoted data: of `invalid input syntax for type integer: "4711x"`, the part before the colon remains.
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

/// Returns a label of an SQL text for messages: its beginning, up to the first literal, which may be data.
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
    /// The SQLSTATE of triggered_data_change_violation, which the server also uses for other errors.
    private static let keptOutState = "27000"

    /// Creates the error for rows that were not written because a trigger of the table returned no row, or a rule
    /// replaces the statement.
    ///
    /// - Parameter step: the step of the pipeline, if there was one.
    public static func rowsKeptOut(sent: Int, written: Int, step: Int? = nil) -> PostgresError {
        var error = PostgresError(
            .server(sqlState: keptOutState),
            sent == 1 ? "a trigger rejects the row" : "a trigger or a rule rejects \(sent - written) of \(sent) rows")
        error.step = step
        error.isRowsKeptOut = true
        return error
    }

    /// Creates the error for a rule that replaces the statement: no row is written until the rule is dropped.
    public static func replaced(by rule: String, on table: String) -> PostgresError {
        // object_not_in_prerequisite_state
        PostgresError(
            .server(sqlState: "55000"), "the rule \(rule) replaces writes to \(table): drop the rule")
    }
}
