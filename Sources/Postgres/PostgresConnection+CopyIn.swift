import CPostgres

extension PostgresConnection {
    /// Runs a `COPY … FROM STDIN` whose rows `body` writes. Returns the number of rows that the server stored.
    ///
    /// An error thrown by `body` makes the COPY fail without storing anything, and is rethrown. Errors of the server
    /// are thrown as well. The deadline applies to each wait, not to the whole COPY.
    @discardableResult
    public func copyIn(_ sql: String, _ body: (inout CopyWriter) throws -> Void) throws -> Int {
        let label = statementLabel(sql)
        try check(sql, label)
        let deadline = try begin(label)
        defer { end() }
        var writer = try startCopyIn(sql, label, deadline)
        var bodyError: (any Error)?
        do {
            try body(&writer)
            try writer.finish()
        } catch {
            bodyError = error
        }
        guard link.isOpen else {
            throw bodyError ?? PostgresError(.connectionLost, "the connection is closed", statement: label)
        }
        // The text appears in the server's log and must not repeat the error, which may contain data. A COPY that the
        // server has stopped cannot be ended (-1): its error must then be read.
        let ended = PQputCopyEnd(link.connection, bodyError == nil ? nil : "cancelled by the client")
        guard ended != 0 else { throw link.failure(.connectionLost, link.message, statement: label) }
        var rowCount = 0
        do throws(PostgresError) {
            rowCount = try collect(1, label, .silence(ms: statementTimeoutMilliseconds))?.affectedRows ?? 0
        } catch {
            let isCause = bodyError == nil || bodyError as? PostgresError == CopyWriter.stopped
            if isCause || error.isConnectionLost { throw error }
        }
        if let bodyError { throw bodyError }
        try failAfter(label)
        return rowCount
    }

    private func startCopyIn(
        _ sql: String, _ label: String, _ deadline: Deadline
    ) throws(PostgresError) -> CopyWriter {
        do throws(PostgresError) {
            guard let result = try startCopy(sql, label, deadline, PGRES_COPY_IN) else {
                throw PostgresError(.protocol, "not a COPY … FROM STDIN")
            }
            defer { PQclear(result) }
            return CopyWriter(
                link, isBinary: PQbinaryTuples(result) == 1, columnCount: Int(PQnfields(result)),
                timeoutMilliseconds: statementTimeoutMilliseconds)
        } catch {
            throw labelled(error, label)
        }
    }

    /// Sends the statement and reads the server's answer. Returns nil if the statement is not a COPY; the connection is
    /// then idle again. A COPY of the other direction throws and closes the connection.
    func startCopy(
        _ sql: String, _ label: String, _ deadline: Deadline, _ direction: ExecStatusType
    ) throws(PostgresError) -> OpaquePointer? {
        try requireSent(PQsendQuery(link.connection, sql))
        try link.flush(until: deadline)
        guard let first = try link.nextResult(until: deadline) else {
            throw link.failure(.protocol, "the statement had no result")
        }
        let status = PQresultStatus(first)
        if status == direction {
            return first
        }
        if status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH {
            PQclear(first)
            throw link.failure(.protocol, "a COPY of the other direction; the connection is closed")
        }
        var failure: PostgresError?
        if status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY {
            PQclear(first)
        } else {
            let error = link.failure(first, label)
            if error.isConnectionLost { throw error }
            failure = error
        }
        _ = try collect(1, label, deadline)
        if let failure { throw failure }
        return nil
    }
}
