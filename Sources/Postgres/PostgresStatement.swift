/// A statement to be prepared once a connection and executed often.
///
/// A connection prepares it at its first use, and so does the next connection after a reconnect: the value is all
/// that must be kept. The name must be unique among the statements of a program.
public struct PostgresStatement: Sendable {
    public let name: String
    public let sql: String
    /// The parameters' types, `$1` first. Left empty, PostgreSQL infers them: then the appended parameters must be of
    /// exactly the inferred types, as they travel in binary form.
    public let types: [PostgresType]

    public init(_ name: String, _ sql: String, types: [PostgresType] = []) {
        self.name = name
        self.sql = sql
        self.types = types
    }

    /// - Throws: `invalidParameter` if `parameters` do not fit the declared types.
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

    /// A statement sent as text.
    public static func query(_ sql: String, _ parameters: PostgresParameters = []) -> PipelineStep {
        PipelineStep(command: .sql(sql), parameters: parameters)
    }

    /// A prepared statement; prepared in the same round trip if this connection has not used it yet.
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

/// `name` as an SQL identifier: in double quotes, inner double quotes doubled. The one place where identifiers are
/// quoted.
///
/// A NUL cannot be part of an identifier and is left out. PostgreSQL cuts identifiers at 63 bytes; that is the
/// caller's to check.
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
