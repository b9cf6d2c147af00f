import CPostgres

extension PostgresConnection {
    /// Sends all steps at once, with one sync at the end: one round trip. Returns one result per step.
    ///
    /// Without BEGIN and COMMIT among them, the steps are one implicit transaction. A failing step stops the rest, and
    /// the error contains its index (`step`). If the pipeline itself began the transaction, it is rolled back before
    /// the error is thrown, so the connection is idle again. A transaction that was open before stays open, and failed.
    ///
    /// - Throws: `server` (nothing was committed, unless a COMMIT precedes the failing step), `invalidParameter`
    ///   (nothing was sent), or an error that has closed the connection: the outcome of a COMMIT is then unknown.
    @discardableResult
    public func pipeline(_ steps: [PipelineStep]) throws(PostgresError) -> [PostgresResult] {
        guard !steps.isEmpty else { return [] }
        guard pipelines.isEmpty else {
            throw PostgresError(
                link.isLost ? .connectionLost : .protocol, "a pipeline is in flight whose results were not received",
                statement: "pipeline")
        }
        try sendPipeline(steps)
        return try receivePipeline()
    }

    /// Sends all steps at once, with one sync at the end, without waiting for the answer. `receivePipeline` returns the
    /// outcome.
    ///
    /// More pipelines may be sent while others are in flight. The server executes them in the order of sending, even if
    /// earlier ones fail. Until all are received, the connection can't be used for anything else.
    /// A transaction that fails and stays open makes all later pipelines fail, and is rolled back when the last one is
    /// received.
    ///
    /// - Throws: `invalidParameter` (nothing was sent), or an error that has closed the connection: the outcome of all
    ///   pipelines in flight is then unknown.
    public func sendPipeline(_ steps: [PipelineStep]) throws(PostgresError) {
        try check(steps)
        let isFirst = pipelines.isEmpty
        if isFirst {
            _ = try begin("pipeline", isSent: false)
            startedIdle = PQtransactionStatus(link.connection) == PQTRANS_IDLE
            guard PQenterPipelineMode(link.connection) == 1 else {
                defer { end() }
                throw link.failure(.protocol, link.message, statement: "pipeline")
            }
        }
        do {
            try failBefore(Self.label(steps))
            pipelines.append(
                PipelineInFlight(
                    steps: steps, expected: try send(steps), losesAnswer: faultyCalls?.takeLosesAnswer() ?? false))
            // After other pipelines, the server reads when it has finished those. Data that the socket does not accept
            // now is sent while their answers are awaited. The first pipeline is sent completely, because it may hold a
            // lock as soon as the server has read a part of it.
            if isFirst {
                try link.flush(until: .silence(ms: statementTimeoutMilliseconds))
                if link.isOpen { link.noteMoved() }
            } else {
                _ = PQflush(link.connection)
            }
        } catch {
            endPipelines()
            throw error
        }
    }

    /// The deadline for all waits for pipelines in flight, counted from when a byte last moved.
    private var silence: Deadline { .commonSilence(ms: statementTimeoutMilliseconds) }

    /// The number of pipelines in flight: sent and not received.
    public var pipelinesInFlight: Int { pipelines.count }

    /// Whether everything has been passed to the socket. Does not wait.
    public var isPipelineOut: Bool { link.isOpen && PQflush(link.connection) == 0 }

    /// Whether the answer to a pipeline in flight has begun to arrive, or never will because the connection is lost.
    /// Does not wait.
    public var isPipelineAnswered: Bool {
        guard link.isOpen, !pipelines.isEmpty else { return true }
        _ = PQconsumeInput(link.connection)
        guard PQisBusy(link.connection) == 0 else { return false }
        link.noteHeard()
        return true
    }

    /// Waits until the next answer to a pipeline in flight begins to arrive. Returns false if `wake` was called.
    /// Does not receive the answer.
    ///
    /// - Throws: an error that has closed the connection.
    public func awaitPipeline(wake: WakeHandle) throws(PostgresError) -> Bool {
        do throws(PostgresError) {
            return try link.awaitResult(until: silence, wake: wake)
        } catch {
            endPipelines()
            throw lost(error)
        }
    }

    /// Waits for the outcome of the oldest pipeline in flight. Returns one result per step.
    ///
    /// - Throws: as `pipeline`.
    public func receivePipeline() throws(PostgresError) -> [PostgresResult] {
        guard let first = pipelines.first else {
            throw PostgresError(
                link.isLost ? .connectionLost : .protocol, "no pipeline is in flight", statement: "pipeline")
        }
        let deadline = silence
        do throws(PostgresError) {
            let (results, failure) = try receive(first.expected, first.steps, deadline)
            if first.losesAnswer {
                throw link.failure(.connectionLost, FaultyCalls.lost, statement: Self.label(first.steps))
            }
            pipelines.removeFirst()
            if pipelines.isEmpty {
                defer { end() }
                try leavePipelineMode(failure, deadline)
            } else {
                // The server now reads the next pipeline, and may hold a lock until it has received all of it.
                link.noteMoved()
                try link.flush(until: silence)
            }
            if let failure { throw failure }
            return results
        } catch {
            if !link.isOpen { endPipelines() }
            throw error
        }
    }

    /// Receives all pipelines in flight and discards their outcomes.
    public func dropPipelines() {
        while !pipelines.isEmpty { _ = try? receivePipeline() }
    }

    private func leavePipelineMode(_ failure: PostgresError?, _ deadline: Deadline) throws(PostgresError) {
        guard PQexitPipelineMode(link.connection) == 1 else {
            throw failure ?? link.failure(.protocol, link.message, statement: "pipeline")
        }
        if startedIdle && PQtransactionStatus(link.connection) == PQTRANS_INERROR {
            // The received answer may have waited for long while its receiver was busy.
            link.noteMoved()
            _ = try collect(PQsendQuery(link.connection, "ROLLBACK"), "ROLLBACK", deadline)
        }
    }

    /// Discards all pipelines, because the connection is closed.
    private func endPipelines() {
        guard !pipelines.isEmpty || !link.isOpen else { return }
        pipelines.removeAll()
        end()
    }

    /// Steps that were sent, and the expected answers.
    struct PipelineInFlight {
        let steps: [PipelineStep]
        fileprivate let expected: [Expected]
        /// Whether the connection is lost when the answer arrives.
        fileprivate let losesAnswer: Bool
    }

    private static func label(_ steps: [PipelineStep]) -> String { steps.map(\.label).joined(separator: "; ") }

    /// An expected answer of the server, in order.
    fileprivate struct Expected {
        var step: Int
        /// The name of the statement on the server, if the answer is to the preparation of the step's statement.
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

    /// Returns one step's result, or nil if the pipeline was aborted before the step.
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

    /// Reads up to the answer of the sync. An implicit transaction commits here, so this may fail as well.
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

    /// Closes the connection and returns the error as a connection loss, because the connection was lost during the
    /// pipeline.
    private func lost(_ error: PostgresError) -> PostgresError {
        var error = error
        if !error.isConnectionLost {
            error.kind = .connectionLost
        }
        link.close()
        return error
    }
}
