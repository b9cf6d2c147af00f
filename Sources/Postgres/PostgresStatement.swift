/// A statement that is prepared once per connection and executed often.
///
/// A connection prepares it at its first use, and so does the next connection after a reconnect: only this value must
/// be kept. The name must be unique among the statements of a program.
public struct PostgresStatement: Sendable {
    public let name: String
    public let sql: String
    /// The parameters' types, `$1` first. If empty, PostgreSQL infers them.
    /// The appended parameters must then have exactly the inferred types, because they are sent in binary format.
    public let types: [PostgresType]

    public init(_ name: String, _ sql: String, types: [PostgresType] = []) {
        self.name = name
        self.sql = sql
        self.types = types
    }

    /// Checks the parameters against the declared types.
    ///
    /// - Throws: `invalidParameter` if they do not match.
    func check(_ parameters: PostgresParameters) throws(PostgresError) {
        try parameters.check(name)
        guard !types.isEmpty else { return }
        guard types.count == parameters.count else {
            throw PostgresError(
                .invalidParameter, "\(parameters.count) parameters for a statement with \(types.count)", statement: name
            )
        }
        for (index, slot) in parameters.slots.enumerated() where slot.type != types[index] {
            throw PostgresError(
                .invalidParameter,
                "parameter $\(index + 1) is \(slot.type), but the statement declares \(types[index])",
                statement: name)
        }
    }
}

/// One statement of a pipeline.
public struct PipelineStep: Sendable {
    enum Command: Sendable {
        case sql(String)
        case prepared(PostgresStatement)
    }

    let command: Command
    let parameters: PostgresParameters

    /// Creates a step that sends a statement as text.
    public static func query(_ sql: String, _ parameters: PostgresParameters = []) -> PipelineStep {
        PipelineStep(command: .sql(sql), parameters: parameters)
    }

    /// Creates a step with a prepared statement. It is prepared in the same round trip if this connection has not used
    /// it yet.
    public static func prepared(_ statement: PostgresStatement, _ parameters: PostgresParameters = []) -> PipelineStep {
        PipelineStep(command: .prepared(statement), parameters: parameters)
    }

    var label: String {
        switch command {
        case .sql(let sql): statementLabel(sql)
        case .prepared(let statement): statement.name
        }
    }

    var sql: String {
        switch command {
        case .sql(let sql): sql
        case .prepared(let statement): statement.sql
        }
    }
}

/// Returns `name` as an SQL identifier: in double quotes, with inner double quotes doubled. All quoting of identifiers
/// uses this function.
///
/// A NUL cannot be part of an identifier and is left out. PostgreSQL truncates identifiers to 63 bytes; the caller must
/// check the length.
public func quotedIdentifier(_ name: String) -> String {
    var quoted = "\""
    for scalar in name.unicodeScalars where scalar != "\0" {
        if scalar == "\"" {
            quoted.unicodeScalars.append("\"")
        }
        quoted.unicodeScalars.append(scalar)
    }
    quoted.append("\"")
    return quoted
}
