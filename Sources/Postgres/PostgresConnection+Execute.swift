import CPostgres

extension PostgresConnection {
    /// Runs one statement with binary parameters and a binary result.
    ///
    /// - Throws: `server`, `invalidParameter`, or an error that has closed the connection.
    @discardableResult
    public func execute(
        _ sql: String, _ parameters: PostgresParameters = []
    ) throws(PostgresError) -> PostgresResult {
        let label = statementLabel(sql)
        try check(sql, label)
        try parameters.check(label)
        let deadline = try begin(label)
        defer { end() }
        let sent = sendQuery(sql, parameters)
        return try singleResult(sent, sql: sql, label, deadline)
    }

    /// Runs several statements, separated by semicolons, without parameters and results, such as a migration. A script
    /// without BEGIN and COMMIT is one transaction.
    public func executeScript(_ sql: String) throws(PostgresError) {
        let label = statementLabel(sql)
        try check(sql, label)
        let deadline = try begin(label)
        defer { end() }
        let sent = PQsendQuery(link.connection, sql)
        _ = try collect(sent, label, deadline)
        try failAfter(label)
    }

    /// Prepares a statement now. ``executePrepared(_:_:)`` does so at the first use, so this call is optional.
    public func prepare(_ statement: PostgresStatement) throws(PostgresError) {
        try check(statement.sql, statement.name)
        let deadline = try begin(statement.name)
        defer { end() }
        _ = try serverName(statement, deadline)
        try failAfter(statement.name)
    }

    /// Runs a prepared statement. Prepares it first if this connection has not done so yet.
    @discardableResult
    public func executePrepared(
        _ statement: PostgresStatement, _ parameters: PostgresParameters = []
    ) throws(PostgresError) -> PostgresResult {
        try statement.check(parameters)
        let deadline = try begin(statement.name)
        defer { end() }
        let name = try serverName(statement, deadline)
        let sent = sendPrepared(name, parameters)
        do throws(PostgresError) {
            return try singleResult(sent, sql: statement.sql, statement.name, deadline)
        } catch {
            forgetIfStale(statement.name, error)
            throw error
        }
    }

    func sendQuery(_ sql: String, _ parameters: PostgresParameters) -> Int32 {
        parameters.withLibpqArrays {
            PQsendQueryParams(link.connection, sql, $0.count, $0.types, $0.values, $0.lengths, $0.formats, 1)
        }
    }

    func sendPrepared(_ name: [CChar], _ parameters: PostgresParameters) -> Int32 {
        parameters.withLibpqArrays {
            PQsendQueryPrepared(link.connection, name, $0.count, $0.values, $0.lengths, $0.formats, 1)
        }
    }

    func sendPrepare(_ name: [CChar], _ statement: PostgresStatement) -> Int32 {
        let types = statement.types.map(\.oid)
        return PQsendPrepare(link.connection, name, statement.sql, Int32(types.count), types)
    }

    /// A C string ends at U+0000: the rest of the statement would be lost silently.
    func check(_ sql: String, _ label: @autoclosure () -> String) throws(PostgresError) {
        if sql.utf8.contains(0) {
            throw PostgresError(.invalidParameter, "the SQL text holds U+0000", statement: label())
        }
    }

    /// Returns the server's name of the statement, or nil if it is not prepared on this connection.
    func preparedName(_ statement: PostgresStatement) throws(PostgresError) -> [CChar]? {
        guard let known = prepared[statement.name] else { return nil }
        guard known.sql == statement.sql else {
            throw PostgresError(
                .protocol, "two prepared statements with different SQL have the same name", statement: statement.name)
        }
        return known.serverName
    }

    /// Returns a new server-side name. The server truncates names to 63 bytes, so in a long name the unique part is at
    /// the beginning.
    func newServerName(_ statement: PostgresStatement) -> [CChar] {
        preparedGeneration += 1
        let name = "\(statement.name)#\(preparedGeneration)"
        return Array((name.utf8.count <= 63 ? name : "\(preparedGeneration)#\(statement.name)").utf8CString)
    }

    /// Makes the next use prepare the statement again under a new name, if the server has dropped it (DISCARD ALL) or
    /// cannot run it any more (a migration has changed its result type).
    func forgetIfStale(_ name: String, _ error: PostgresError) {
        if error.isRetriable && error.sqlState != "40001" && error.sqlState != "40P01" {
            prepared[name] = nil
        }
    }

    private func serverName(_ statement: PostgresStatement, _ deadline: Deadline) throws(PostgresError) -> [CChar] {
        if let name = try preparedName(statement) {
            return name
        }
        try check(statement.sql, statement.name)
        let name = newServerName(statement)
        _ = try collect(sendPrepare(name, statement), statement.name, deadline)
        prepared[statement.name] = (statement.sql, name)
        return name
    }

    private func singleResult(
        _ sent: Int32, sql: String, _ label: String, _ deadline: Deadline
    ) throws(PostgresError) -> PostgresResult {
        guard let result = try collect(sent, label, deadline) else {
            throw link.failure(.protocol, "the statement had no result", statement: label)
        }
        try failAfter(label)
        try checkCommitted(result, sql, label)
        return result
    }

    /// Reads all results of a call and returns the last one, or throws the first error.
    func collect(_ sent: Int32, _ label: String, _ deadline: Deadline) throws(PostgresError) -> PostgresResult? {
        do throws(PostgresError) {
            try requireSent(sent)
            try link.flush(until: deadline)
            var last: PostgresResult?
            var failure: PostgresError?
            while let result = try link.nextResult(until: deadline) {
                switch PQresultStatus(result) {
                case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY, PGRES_SINGLE_TUPLE:
                    last = PostgresResult(result)
                case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH:
                    PQclear(result)
                    throw link.failure(.protocol, "COPY must go through copyIn or copyOut; the connection is closed")
                default:
                    let error = link.failure(result, label)
                    if error.isConnectionLost { throw error }
                    failure = failure ?? error
                }
            }
            if let failure { throw failure }
            return last
        } catch {
            throw labelled(error, label)
        }
    }

    /// libpq fails to send only if the connection is lost or memory is exhausted. In both cases the connection is
    /// unusable.
    func requireSent(_ sent: Int32) throws(PostgresError) {
        guard sent == 0 else { return }
        throw link.failure(.connectionLost, link.message)
    }

    func labelled(_ error: PostgresError, _ label: String) -> PostgresError {
        var error = error
        error.statement = error.statement ?? label
        return error
    }

    /// COMMIT of a failed transaction "succeeds" with the tag ROLLBACK, which must not count as a commit.
    func checkCommitted(
        _ result: PostgresResult, _ sql: String, _ label: @autoclosure () -> String
    ) throws(PostgresError) {
        guard result.isRollback else { return }
        let verb = sql.drop(while: \.isWhitespace).prefix(6).uppercased()
        if verb == "COMMIT" || verb.hasPrefix("END") {
            throw PostgresError(
                .server(sqlState: "25P02"), "the transaction had failed and was rolled back instead of committed",
                statement: label())
        }
    }
}

extension PostgresConnection {
    /// Drops a prepared statement. The next use prepares it again.
    public func forget(_ statement: PostgresStatement) throws(PostgresError) {
        guard let known = prepared.removeValue(forKey: statement.name) else { return }
        let name = String(decoding: known.serverName.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        try executeScript("deallocate \(quotedIdentifier(name))")
    }
}
