import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks the state that the engine's threads share, without a database.
@Suite struct EngineCoreTests {
    private static func core(
        _ change: (inout EngineSettings, inout LogConnection.Settings) -> Void = { _, _ in }
    ) throws -> EngineCore {
        var settings = EngineSettings()
        var connection = LogConnection.Settings()
        change(&settings, &connection)
        return EngineCore(
            url: try PostgresURL("postgresql://nowhere.invalid/x"), settings: settings, connectionSettings: connection,
            metrics: EngineMetrics(), logger: Logger(level: .error, descriptor: -1))
    }

    // MARK: Patience

    /// The server gives up before the gateway does, and a lock wait is not longer than a write's deadline: a statement
    /// then fails instead of the connection.
    @Test(arguments: [100, 1_000, 5_000, 6_000, 10_000, 60_000] as [Int64])
    func theServerGivesUpFirst(deadline: Int64) throws {
        let core = try Self.core { settings, _ in settings.commitDeadlineMilliseconds = deadline }
        let connection = core.connectionSettings.connection
        let silence = EngineCore.silenceMilliseconds(core.settings)
        let locks = try #require(connection.sessionSettings["lock_timeout"].flatMap { Int64($0) })
        let idle = try #require(
            connection.sessionSettings["idle_in_transaction_session_timeout"].flatMap { Int64($0) })
        #expect(Int64(connection.statementTimeoutMilliseconds) == silence)
        #expect(locks < silence && locks <= deadline && locks > 0)
        #expect(idle >= 1 && idle <= max(1, deadline / 2))
        #expect(silence >= 3_000)
    }

    @Test(arguments: [(1_000, 1_000), (5_000, 5_000), (60_000, 5_000)])
    func connectingTakesSoLongAtMost(asked: Int, used: Int) throws {
        let core = try Self.core { _, connection in connection.connection.connectTimeoutMilliseconds = Int64(asked) }
        #expect(core.connectionSettings.connection.connectTimeoutMilliseconds == used)
    }

    @Test(arguments: [(10, 3_000), (1_000, 3_000), (2_000, 4_000), (5_000, 10_000), (60_000, 10_000)])
    func looksTakeSoLongAtMost(poll: Int, look: Int) throws {
        #expect(
            try Self.core { settings, _ in settings.pollMilliseconds = Int64(poll) }.lookMilliseconds == Int64(look))
    }

    // MARK: Work

    /// Work that was added before the stop is done before it, and each committer ends once.
    @Test(arguments: [1, 2, 5]) func eachCommitterIsStopped(count: Int) throws {
        let core = try Self.core { settings, _ in settings.committers = count }
        core.jobs.add(.work(.test(name: "a")))
        #expect(!core.stopsNow)
        core.beginStop()
        #expect(core.stopsNow)
        #expect(core.jobs.next(for: 0).kind == "work a")
        #expect((0..<count).map { core.jobs.next(for: $0).kind } == Array(repeating: "stop", count: count))
        #expect(core.stallMeters.count == count)
    }

    @Test func aPauseEndsWithTheEngine() throws {
        let core = try Self.core()
        let isOver = MutexBox(false)
        let thread = Thread(name: "waits") {
            core.pause(milliseconds: 600_000)
            isOver.withLock { $0 = true }
        }
        core.beginStop()
        thread.join()
        #expect(isOver.withLock { $0 })
        core.pause(milliseconds: 600_000)
    }

    // MARK: Health

    @Test func failuresAndAnswersAreReported() throws {
        let core = try Self.core()
        core.databaseAnswered()
        #expect(core.health.isUp)
        core.databaseFailed(.standby)
        #expect(!core.health.isUp)
        #expect(core.health.reason == "\(LogStoreError.standby)")
        core.databaseFailed(.outdated(timeline: 1, newest: 2))
        #expect(core.health.reason == "\(LogStoreError.outdated(timeline: 1, newest: 2))")
        core.databaseAnswered()
        #expect(core.health.isUp)
    }

    /// A failed attempt to connect is reported only to its caller.
    @Test func aServerThatIsNotThere() throws {
        let core = try Self.core { _, connection in connection.connection.connectTimeoutMilliseconds = 500 }
        core.databaseAnswered()
        let error = #expect(throws: LogStoreError.self) { _ = try core.connect("test") }
        #expect(error?.isConnectionLost == true)
        #expect(core.health.isUp)
        // A committer that can't connect shows more: no other thread has a connection, either.
        let connection = CommitterConnection(core, name: "committer 0")
        #expect(throws: LogStoreError.self) { _ = try connection.get() }
        #expect(!core.health.isUp && !connection.isThere && !connection.answers())
    }

    @Test func otherHistoriesAreCounted() throws {
        let core = try Self.core()
        let before = core.historyNumber
        core.noteOtherHistory()
        core.noteOtherHistory()
        #expect(core.historyNumber == before + 2)
    }
}
