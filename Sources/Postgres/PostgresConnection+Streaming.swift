import CPostgres
import Glibc

extension PostgresConnection {
    /// Calls `row` for each row of a statement as it arrives. Memory is bounded, regardless of the number of rows.
    ///
    /// An error thrown by `row` cancels the statement and is rethrown. The deadline applies to each wait, not to the
    /// whole statement.
    public func forEachRow(
        _ sql: String, _ parameters: PostgresParameters = [], _ row: (borrowing PostgresRow) throws -> Void
    ) throws {
        let label = statementLabel(sql)
        try check(sql, label)
        try parameters.check(label)
        let deadline = try begin(label)
        defer { end() }
        do throws(PostgresError) {
            try requireSent(sendQuery(sql, parameters))
            guard PQsetSingleRowMode(link.connection) == 1 else { throw link.failure(.protocol, link.message) }
            try link.flush(until: deadline)
        } catch {
            throw labelled(error, label)
        }
        while let result = try nextStreamed(label) {
            guard PQresultStatus(result) == PGRES_SINGLE_TUPLE else {
                try finishStreaming(result, label)
                continue
            }
            do {
                try row(PostgresRow(PostgresResult(result)))
            } catch {
                try giveUp(label)
                throw error
            }
        }
        try failAfter(label)
    }

    /// Runs a `COPY … TO STDOUT` and calls `row` with each piece of data as it arrives, valid only during the call.
    /// PostgreSQL sends one row per piece. In binary format the first piece also contains the header, and the last one
    /// is the trailer alone.
    ///
    /// An error thrown by `row` cancels the COPY and is rethrown. The deadline applies to each wait, not to the whole
    /// COPY.
    public func copyOut(_ sql: String, _ row: (UnsafeRawBufferPointer) throws -> Void) throws {
        let label = statementLabel(sql)
        try check(sql, label)
        let deadline = try begin(label)
        defer { end() }
        try startCopyOut(sql, label, deadline)
        while let piece = try nextPiece(label) {
            defer { PQfreemem(piece.baseAddress) }
            do {
                try row(UnsafeRawBufferPointer(piece))
            } catch {
                try giveUp(label)
                throw error
            }
        }
        _ = try collect(1, label, .silence(ms: statementTimeoutMilliseconds))
        try failAfter(label)
    }

    /// Runs a `COPY … TO STDOUT WITH (FORMAT binary)` and calls `row` with each row, decoded without copying. This is
    /// the fastest way to read many rows, by a small margin.
    public func copyOutRows(_ sql: String, _ row: (borrowing BinaryCopyRow) throws -> Void) throws {
        var decoder = BinaryCopyDecoder()
        try copyOut(sql) { piece in
            if try decoder.decode(piece) {
                try row(BinaryCopyRow(piece, decoder.fields))
            }
        }
    }

    private func startCopyOut(_ sql: String, _ label: String, _ deadline: Deadline) throws(PostgresError) {
        do throws(PostgresError) {
            guard let result = try startCopy(sql, label, deadline, PGRES_COPY_OUT) else {
                throw PostgresError(.protocol, "not a COPY … TO STDOUT")
            }
            PQclear(result)
        } catch {
            throw labelled(error, label)
        }
    }

    private func nextPiece(_ label: String) throws(PostgresError) -> UnsafeMutableRawBufferPointer? {
        while link.isOpen {
            var buffer: UnsafeMutablePointer<CChar>?
            let count = PQgetCopyData(link.connection, &buffer, 1)
            if count > 0 {
                return UnsafeMutableRawBufferPointer(start: buffer, count: Int(count))
            }
            guard count == 0 else { return nil }
            do throws(PostgresError) {
                _ = try link.wait(POLLIN, until: .silence(ms: statementTimeoutMilliseconds))
            } catch {
                throw labelled(error, label)
            }
            if PQconsumeInput(link.connection) == 0 {
                throw link.failure(.connectionLost, link.message, statement: label)
            }
        }
        return nil
    }

    private func nextStreamed(_ label: String) throws(PostgresError) -> OpaquePointer? {
        do throws(PostgresError) {
            return try link.nextResult(until: .silence(ms: statementTimeoutMilliseconds))
        } catch {
            throw labelled(error, label)
        }
    }

    /// Handles the result that ends a stream: the empty result after the last row, or an error.
    private func finishStreaming(_ result: OpaquePointer, _ label: String) throws(PostgresError) {
        switch PQresultStatus(result) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
            PQclear(result)
        case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH:
            PQclear(result)
            throw link.failure(.protocol, "COPY must go through copyIn or copyOut; the connection is closed")
        default:
            let error = link.failure(result, label)
            if !error.isConnectionLost {
                _ = try collect(1, label, .silence(ms: statementTimeoutMilliseconds))
            }
            throw error
        }
    }

    /// Cancels the running statement and discards the data that it had already sent. The connection is usable
    /// afterwards. If that fails, the connection is closed and the reason thrown.
    private func giveUp(_ label: String) throws(PostgresError) {
        cancelHandle.cancelStatement()
        while try nextPieceOrEnd(label) {}
        do throws(PostgresError) {
            _ = try drain(.silence(ms: statementTimeoutMilliseconds))
        } catch {
            throw labelled(error, label)
        }
    }

    private func nextPieceOrEnd(_ label: String) throws(PostgresError) -> Bool {
        guard PQtransactionStatus(link.connection) == PQTRANS_ACTIVE, let piece = try nextPiece(label) else {
            return false
        }
        PQfreemem(piece.baseAddress)
        return true
    }

    private func drain(_ deadline: Deadline) throws(PostgresError) {
        while let result = try link.nextResult(until: deadline) {
            PQclear(result)
        }
        if link.isLost {
            throw link.failure(.connectionLost, link.message)
        }
    }
}
