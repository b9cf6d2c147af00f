import CPostgres

extension PostgresConnection {
    /// Sends all steps at once, with one sync at the end: one round trip. Returns one result a step.
    ///
    /// Without BEGIN and COMMIT among them the steps are one implicit transaction. A failing step stops the rest; the
    /// error names its index (`step`). If the pipeline itself began the transaction, it is rolled back before the
    /// error is thrown, so the connection is idle again; a transaction that was open before stays open, and failed.
    ///
    /// - Throws: `server` (nothing was committed, unless a COMMIT precedes the failing step), `invalidParameter`
    ///   (nothing was sent), or an error that has closed the connection: then a COMMIT's outcome is unknown.
    @discardableResult
    public func pipeline(_ steps: [PipelineStep]) throws(PostgresError) -> [PostgresResult] {
        guard !steps.isEmpty else { return [] }
        try check(steps)
        let deadline = try begin("pipeline")
        defer { end() }
        let wasIdle = PQtransactionStatus(link.connection) == PQTRANS_IDLE
        guard PQenterPipelineMode(link.connection) == 1 else {
            throw link.failure(.protocol, link.message, statement: "pipeline")
        }
        let expected = try send(steps)
        let (results, failure) = try receive(expected, steps, deadline)
        guard PQexitPipelineMode(link.connection) == 1 else {
            throw failure ?? link.failure(.protocol, link.message, statement: "pipeline")
        }
        guard let failure else { return results }
        if wasIdle && PQtransactionStatus(link.connection) == PQTRANS_INERROR {
            _ = try collect(PQsendQuery(link.connection, "ROLLBACK"), "ROLLBACK", deadline)
        }
        throw failure
    }

    /// What the server will answer, in order.
    private struct Expected {
        var step: Int
        /// Set for the preparation of the step's statement: the name it gets on the server.
        var preparing: [CChar]?
    }

    private func check(_ steps: [PipelineStep]) throws(PostgresError) {
        for (index, step) in steps.enumerated() {
            do throws(PostgresError) {
                switch step.command {
                case .sql(let sql):
                    try check(sql, statementLabel(sql))
                    try step.parameters.check(statementLabel(sql))
                case .prepared(let statement):
                    try statement.check(step.parameters)
                    if try preparedName(statement) == nil {
                        try check(statement.sql, statement.name)
                    }
                }
            } catch {
                throw at(index, error)
            }
        }
    }

    private func send(_ steps: [PipelineStep]) throws(PostgresError) -> [Expected] {
        var expected: [Expected] = []
        expected.reserveCapacity(steps.count + 1)
        var preparing: [String: [CChar]] = [:]
        for (index, step) in steps.enumerated() {
            switch step.command {
            case .sql(let sql):
                try requireSent(sendQuery(sql, step.parameters))
            case .prepared(let statement):
                let name: [CChar]
                if let known = try preparedName(statement) ?? preparing[statement.name] {
                    name = known
                } else {
                    name = newServerName(statement)
                    try requireSent(sendPrepare(name, statement))
                    expected.append(Expected(step: index, preparing: name))
                    preparing[statement.name] = name
                }
                try requireSent(sendPrepared(name, step.parameters))
            }
            expected.append(Expected(step: index, preparing: nil))
        }
        try requireSent(PQpipelineSync(link.connection))
        return expected
    }

    private func receive(
        _ expected: [Expected], _ steps: [PipelineStep], _ deadline: Deadline
    ) throws(PostgresError) -> ([PostgresResult], PostgresError?) {
        var results: [PostgresResult] = []
        results.reserveCapacity(steps.count)
        var failure: PostgresError?
        for item in expected {
            do throws(PostgresError) {
                let result = try receiveOne(steps[item.step], deadline)
                guard let result else { continue }
                if let name = item.preparing, case .prepared(let statement) = steps[item.step].command {
                    prepared[statement.name] = (statement.sql, name)
                } else {
                    results.append(result)
                    try checkCommitted(result, steps[item.step].sql, steps[item.step].label)
                }
            } catch {
                let located = at(item.step, error)
                guard !error.isConnectionLost, link.isOpen, !link.isLost else { throw lost(located) }
                if case .prepared(let statement) = steps[item.step].command {
                    forgetIfStale(statement.name, error)
                }
                failure = failure ?? located
            }
        }
        do throws(PostgresError) {
            failure = try receiveSync(deadline) ?? failure
        } catch {
            throw lost(error)
        }
        return (results, failure)
    }

    /// One step's result; nil if the pipeline was aborted before it.
    private func receiveOne(
        _ step: PipelineStep, _ deadline: Deadline
    ) throws(PostgresError) -> PostgresResult? {
        var kept: PostgresResult?
        var failure: PostgresError?
        while let result = try link.nextResult(until: deadline) {
            switch PQresultStatus(result) {
            case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
                kept = PostgresResult(result)
            case PGRES_PIPELINE_ABORTED:
                PQclear(result)
            case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH, PGRES_PIPELINE_SYNC:
                PQclear(result)
                throw link.failure(
                    .protocol, "a pipeline cannot hold COPY; the connection is closed", statement: step.label)
            default:
                let error = link.failure(result, step.label)
                if error.isConnectionLost { throw error }
                failure = error
            }
        }
        if let failure { throw failure }
        return kept
    }

    /// Reads to the sync's answer. An implicit transaction commits here, so this may fail as well.
    private func receiveSync(_ deadline: Deadline) throws(PostgresError) -> PostgresError? {
        var failure: PostgresError?
        while true {
            guard let result = try link.nextResult(until: deadline) else {
                guard !link.isLost else {
                    throw link.failure(.connectionLost, link.message, statement: "pipeline")
                }
                continue
            }
            if PQresultStatus(result) == PGRES_PIPELINE_SYNC {
                PQclear(result)
                return failure
            }
            let error = link.failure(result, "pipeline")
            guard !error.isConnectionLost else { throw error }
            failure = failure ?? error
        }
    }

    private func at(_ step: Int, _ error: PostgresError) -> PostgresError {
        var error = error
        error.step = error.step ?? step
        return error
    }

    /// The connection went away in the middle, whatever the last answer says.
    private func lost(_ error: PostgresError) -> PostgresError {
        var error = error
        if !error.isConnectionLost {
            error.kind = .connectionLost
        }
        link.close()
        return error
    }
}
