import Glibc
import Postgres
import Runtime
import Testing

/// Checks that a pipeline is one round trip that ends in a known state, whichever step fails.
@Suite struct PipelineTests {
    private let insert = PostgresStatement("insert_n", "INSERT INTO n SELECT unnest($1)", types: [.int8Array])

    private func batch(_ values: ClosedRange<Int64>) -> PostgresParameters {
        var array = PostgresArray(of: .int8)
        for value in values { array.appendInt8(value) }
        return [.array(array)]
    }

    private func connect() throws -> PostgresConnection {
        let connection = try TestDatabase.connect()
        try connection.execute("CREATE TEMP TABLE n (v int8 PRIMARY KEY)")
        return connection
    }

    private func count(_ connection: PostgresConnection) throws -> Int64 {
        try connection.execute("SELECT count(*) FROM n").int64(0, 0)
    }

    @Test func returnsOneResultAStep() throws {
        let connection = try connect()
        for round in 0..<3 as Range<Int64> {
            let results = try connection.pipeline([
                .query("BEGIN"), .prepared(insert, batch(round * 100 + 1...round * 100 + 100)),
                .prepared(insert, batch(-round - 1 ... -round - 1)), .query("SELECT $1", [.int8(7)]), .query("COMMIT"),
            ])
            #expect(results.map(\.affectedRows) == [0, 100, 1, 1, 0])
            #expect(try results[3].int64(0, 0) == 7)
        }
        #expect(try count(connection) == 303)
        #expect(try connection.pipeline([]).isEmpty)
    }

    @Test func aFailingStepIsNamedAndRolledBack() throws {
        let connection = try connect()
        let steps: [PipelineStep] = [
            .query("BEGIN"), .prepared(insert, batch(1...10)), .prepared(insert, batch(10...11)), .query("SELECT 1"),
            .query("COMMIT"),
        ]
        for _ in 0..<2 {
            let error = #expect(throws: PostgresError.self) { try connection.pipeline(steps) }
            #expect(error?.kind == .server(sqlState: "23505"))
            #expect(error?.step == 2)
            #expect(error?.statement == "insert_n")
            #expect(!connection.isInTransaction)
            #expect(try count(connection) == 0)
        }
        // The statement that was prepared in the failed pipeline remains usable.
        #expect(try connection.pipeline([.prepared(insert, batch(1...3))]).count == 1)
        #expect(try count(connection) == 3)
    }

    @Test func anUnpreparableStepIsNamed() throws {
        let connection = try connect()
        let broken = PostgresStatement("broken", "SELECT no_such_column")
        for _ in 0..<2 {
            let error = #expect(throws: PostgresError.self) {
                try connection.pipeline([
                    .query("BEGIN"), .prepared(insert, batch(1...1)), .prepared(broken), .query("COMMIT"),
                ])
            }
            #expect(error?.step == 2)
            #expect(error?.sqlState == "42703")
        }
        #expect(try connection.pipeline([.prepared(insert, batch(1...1))]).count == 1)
    }

    @Test func withoutBeginItIsOneTransaction() throws {
        let connection = try connect()
        let error = #expect(throws: PostgresError.self) {
            try connection.pipeline([.prepared(insert, batch(1...10)), .query("SELECT 1/0")])
        }
        #expect(error?.step == 1)
        #expect(try count(connection) == 0)
    }

    @Test func aTransactionOpenBeforeStaysOpen() throws {
        let connection = try connect()
        try connection.execute("BEGIN")
        #expect(throws: PostgresError.self) { try connection.pipeline([.query("SELECT 1/0")]) }
        #expect(connection.isInTransaction)
        try connection.execute("ROLLBACK")
        try connection.pipeline([.query("BEGIN"), .prepared(insert, batch(1...2))])
        #expect(connection.isInTransaction)
        try connection.execute("COMMIT")
        #expect(try count(connection) == 2)
    }

    @Test func anErrorAtCommitIsReported() throws {
        let connection = try connect()
        try connection.executeScript(
            "CREATE TEMP TABLE d (v int8 REFERENCES n DEFERRABLE INITIALLY DEFERRED)")
        let explicit = #expect(throws: PostgresError.self) {
            try connection.pipeline([.query("BEGIN"), .query("INSERT INTO d VALUES (1)"), .query("COMMIT")])
        }
        #expect(explicit?.sqlState == "23503")
        #expect(explicit?.step == 2)
        let implicit = #expect(throws: PostgresError.self) {
            try connection.pipeline([.query("INSERT INTO d VALUES (1)")])
        }
        #expect(implicit?.sqlState == "23503")
        #expect(try connection.execute("SELECT count(*) FROM d").int64(0, 0) == 0)
    }

    @Test func badParametersSendNothing() throws {
        let connection = try connect()
        let error = #expect(throws: PostgresError.self) {
            try connection.pipeline([.prepared(insert, batch(1...1)), .query("SELECT $1", [.text("\0")])])
        }
        #expect(error?.kind == .invalidParameter)
        #expect(error?.step == 1)
        #expect(try count(connection) == 0)
    }

    /// Checks that large steps and answers do not deadlock: the server stops reading once it cannot send its answers,
    /// so a client that writes everything first would wait forever.
    @Test(.timeLimit(.minutes(20))) func largeStepsAndAnswersDoNotDeadlock() throws {
        let connection = try connect()
        let big = [UInt8](repeating: 0x61, count: 1 << 20)
        let steps = (0..<64).map { _ in PipelineStep.query("SELECT $1", [.bytea(big)]) }
        let results = try connection.pipeline(steps)
        #expect(results.count == 64)
        #expect(results.allSatisfy { $0.withBytes(0, 0) { $0.count } == 1 << 20 })
        let many = (0..<5_000 as Range<Int64>).map { PipelineStep.query("SELECT $1", [.int8($0)]) }
        #expect(try connection.pipeline(many)[4_999].int64(0, 0) == 4_999)
    }

    @Test func copyInAPipelineClosesTheConnection() throws {
        let connection = try connect()
        let error = #expect(throws: PostgresError.self) { try connection.pipeline([.query("COPY n FROM STDIN")]) }
        #expect(error != nil)
        #expect(!connection.isOpen)
    }

    @Test func notificationsInAPipelineAreKept() throws {
        let connection = try connect()
        try connection.execute("LISTEN pipeline_test_self")
        try connection.pipeline([
            .query("BEGIN"), .query("SELECT pg_notify('pipeline_test_self', 'x')"), .query("COMMIT"),
        ])
        #expect(try connection.waitForNotifications(timeoutMilliseconds: 10_000).map(\.payload) == ["x"])
    }

    // MARK: Several pipelines in flight

    private func transaction(_ values: ClosedRange<Int64>) -> [PipelineStep] {
        [.query("BEGIN"), .prepared(insert, batch(values)), .query("COMMIT")]
    }

    @Test func severalAreReceivedInTheirOrder() throws {
        let connection = try connect()
        for number in 0..<3 as Range<Int64> {
            try connection.sendPipeline(transaction(number * 10...number * 10 + number))
        }
        #expect(connection.pipelinesInFlight == 3)
        for number in 0..<3 { #expect(try connection.receivePipeline()[1].affectedRows == number + 1) }
        #expect(connection.pipelinesInFlight == 0)
        #expect(try count(connection) == 6)
        #expect(throws: PostgresError.self) { try connection.receivePipeline() }
        #expect(try count(connection) == 6)
    }

    /// Checks that pipelines after one that failed in an open transaction fail as well, and that the transaction is
    /// rolled back once all have been received.
    @Test func aFailureReachesLaterSteps() throws {
        let connection = try connect()
        try connection.sendPipeline(transaction(1...2))
        try connection.sendPipeline(transaction(2...3))
        try connection.sendPipeline(transaction(4...5))
        #expect(try connection.receivePipeline().count == 3)
        let second = #expect(throws: PostgresError.self) { try connection.receivePipeline() }
        #expect(second?.sqlState == "23505" && second?.step == 1)
        let third = #expect(throws: PostgresError.self) { try connection.receivePipeline() }
        #expect(third?.sqlState == "25P02" && third?.step == 0)
        #expect(!connection.isInTransaction && connection.pipelinesInFlight == 0)
        #expect(try count(connection) == 2)
    }

    /// Checks that a pipeline that fails outside a transaction does not affect later ones.
    @Test func aFailureOutsideOfATransactionStaysAlone() throws {
        let connection = try connect()
        try connection.sendPipeline([.query("SELECT 1 / 0")])
        try connection.sendPipeline(transaction(1...2))
        #expect(throws: PostgresError.self) { try connection.receivePipeline() }
        #expect(try connection.receivePipeline()[1].affectedRows == 2)
        #expect(try count(connection) == 2)
    }

    @Test func nothingElseIsDoneWhileSomeAreInFlight() throws {
        let connection = try connect()
        try connection.sendPipeline(transaction(1...1))
        let error = #expect(throws: PostgresError.self) { try count(connection) }
        #expect(error?.kind == .protocol)
        let another = #expect(throws: PostgresError.self) { try connection.pipeline(transaction(2...2)) }
        #expect(another?.kind == .protocol && connection.pipelinesInFlight == 1)
        // A pipeline that cannot be sent does not affect pipelines in flight.
        let broken = [PipelineStep.query("SELECT $1", [.text("a\0b")])]
        #expect(throws: PostgresError.self) { try connection.sendPipeline(broken) }
        #expect(connection.pipelinesInFlight == 1)
        #expect(try connection.receivePipeline()[1].affectedRows == 1)
        #expect(try count(connection) == 1)
    }

    /// Checks that the connection is usable after pipelines in flight are dropped, whatever their outcome.
    @Test func pipelinesInFlightCanBeDropped() throws {
        let connection = try connect()
        try connection.executeScript("begin")
        try connection.sendPipeline([.prepared(insert, batch(1...1))])
        try connection.sendPipeline([.query("SELECT 1 / 0")])
        try connection.sendPipeline([.prepared(insert, batch(2...2))])
        connection.dropPipelines()
        #expect(connection.pipelinesInFlight == 0 && connection.isInTransaction)
        try connection.executeScript("rollback")
        #expect(try count(connection) == 0)
        connection.dropPipelines()
        try connection.sendPipeline([.query("SELECT pg_sleep(60)")])
        let other = try TestDatabase.connect()
        try other.execute("SELECT pg_terminate_backend($1)", [.int4(connection.backendPID)])
        connection.dropPipelines()
        #expect(!connection.isOpen && connection.pipelinesInFlight == 0)
    }

    @Test func theWaitEndsWhenItIsWoken() throws {
        let connection = try connect()
        let wake = try WakeHandle()
        try connection.sendPipeline([.query("SELECT pg_sleep(0.3)")])
        wake.wake()
        #expect(try !connection.awaitPipeline(wake: wake))
        #expect(try connection.awaitPipeline(wake: wake))
        #expect(try connection.receivePipeline().count == 1)
        #expect(try count(connection) == 0)
    }

    /// Checks that data beyond the socket's buffer is sent while the client waits for answers.
    @Test func whatTheSocketDoesNotTakeFollows() throws {
        let connection = try connect()
        let text = String(repeating: "x", count: 8 << 20)
        for _ in 0..<3 { try connection.sendPipeline([.query("SELECT $1", [.text(text)])]) }
        for _ in 0..<3 { #expect(try connection.receivePipeline()[0].string(0, 0).utf8.count == 8 << 20) }
        #expect(try count(connection) == 0)
    }

    @Test func aLostConnectionLosesAllOfThem() throws {
        let connection = try connect()
        let other = try TestDatabase.connect()
        try connection.sendPipeline([.query("SELECT pg_sleep(60)")])
        try connection.sendPipeline([.query("SELECT 1")])
        try other.execute("SELECT pg_terminate_backend($1)", [.int4(connection.backendPID)])
        for _ in 0..<2 {
            let error = #expect(throws: PostgresError.self) { try connection.receivePipeline() }
            #expect(error?.isConnectionLost == true)
        }
        #expect(!connection.isOpen && connection.pipelinesInFlight == 0)
        #expect(throws: PostgresError.self) { try connection.sendPipeline([.query("SELECT 1")]) }
    }

    @Test func closingEndsPipelinesInFlight() throws {
        let connection = try connect()
        try connection.sendPipeline([.query("SELECT pg_sleep(60)")])
        connection.close()
        #expect(!connection.isOpen && connection.pipelinesInFlight == 0)
        #expect(throws: PostgresError.self) { try connection.receivePipeline() }
    }

    /// Checks that several waits for a pipeline count as one silence, which any received data ends.
    @Test func silenceCountsOnceForAllWaits() throws {
        let connection = try connect()
        let wake = try WakeHandle()
        connection.statementTimeoutMilliseconds = 2_000
        try connection.sendPipeline([.query("SELECT pg_sleep(1.2)")])
        try connection.sendPipeline([.query("SELECT pg_sleep(1.2)")])
        for _ in 0..<20 {
            wake.wake()
            #expect(try !connection.awaitPipeline(wake: wake))
        }
        for _ in 0..<2 { #expect(try connection.receivePipeline().count == 1) }
        try connection.sendPipeline([.query("SELECT pg_sleep(60)")])
        let isDone = Condition(false)
        let waker = Thread(name: "waker") {
            while !isDone.withLock({ $0 }) {
                wake.wake()
                usleep(50_000)
            }
        }
        defer {
            isDone.withLock { $0 = true }
            waker.join()
        }
        let error = #expect(throws: PostgresError.self) {
            while try !connection.awaitPipeline(wake: wake) {}
        }
        #expect(error?.isConnectionLost == true && !connection.isOpen)
    }

    /// Checks that an answer received without a wait ends the silence.
    @Test func anAnswerThatIsThereIsNoSilence() throws {
        let connection = try connect()
        connection.statementTimeoutMilliseconds = 500
        for _ in 0..<12 {
            try connection.sendPipeline([.query("SELECT 1")])
            try connection.sendPipeline([.query("SELECT pg_sleep(0.2)")])
            while !connection.isPipelineAnswered { usleep(1_000) }
            #expect(try connection.receivePipeline().count == 1)
            #expect(connection.isPipelineOut)
            #expect(try connection.receivePipeline().count == 1)
        }
    }
}
