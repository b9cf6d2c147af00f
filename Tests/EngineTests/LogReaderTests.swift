import Engine
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks readers of old entries while the database becomes unavailable.
@Suite struct LogReaderTests {
    /// The reader's connection ends between two requests, and in the middle of one.
    @Test(arguments: [false, true]) func aLostConnectionIsNotTheEnd(inTheMiddle: Bool) throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            for value in 1...30 as ClosedRange<Int64> { _ = namespace.write(.set("x", .int(value))) }
            let cut = { @Sendable () -> Bool in
                guard let administrator = try? PostgresConnection(url) else { return false }
                defer { administrator.close() }
                let ended = try? administrator.execute(
                    """
                    select count(*) filter (where pg_terminate_backend(pid, 10000)) from pg_stat_activity
                    where application_name like 'pathmirror reader%' and datname = current_database()
                    """)
                return (try? ended?.int64(0, 0)) == 1
            }
            for _ in 0..<3 {
                let read = CollectedEntries()
                let checks = MutexBox(0)
                engines[0].engine.readLog(
                    namespace.id, after: 4, through: 20, patience: 20_000,
                    isMeant: { _ in
                        checks.withLock { $0 += 1 }
                        return !inTheMiddle || cut()
                    }, each: read.take, completion: read.finish)
                #expect(try #require(read.wait()).map(\.seq) == Array(5...20))
                // Entries that were checked before are not checked again.
                #expect(checks.withLock { $0 } == 1)
                #expect(inTheMiddle || cut())
            }
        }
    }

    @Test func aDatabaseThatIsAwayIsWaitedFor() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in settings.pollMilliseconds = 20 }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            for value in 1...3 as ClosedRange<Int64> { _ = namespace.write(.set("x", .int(value))) }
            proxy.setDown(true)
            #expect(eventually { !engine.engine.health.isUp })
            let patient = CollectedEntries()
            let impatient = CollectedEntries()
            for (read, patience) in [(impatient, 100), (patient, 60_000)] as [(CollectedEntries, Milliseconds)] {
                engine.engine.readLog(
                    namespace.id, after: 0, through: 3, patience: patience, each: read.take, completion: read.finish)
            }
            #expect(try #require(impatient.wait()).isEmpty)
            // A reader that can't wait is not delayed by waiting readers before it.
            for _ in 0..<3 {
                let hurried = CollectedEntries()
                engine.engine.readLog(
                    namespace.id, after: 0, through: 3, patience: 0, each: hurried.take, completion: hurried.finish)
                #expect(try #require(hurried.wait()).isEmpty)
            }
            proxy.setDown(false)
            #expect(try #require(patient.wait()).map(\.seq) == [1, 2, 3])
        }
    }

    /// A stop ends the wait before the reader's patience does.
    @Test func stoppingEndsTheWait() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url)
            defer { engine.stop() }
            let namespace = try engine.namespace()
            _ = namespace.write(.set("x", .int(1)))
            proxy.setDown(true)
            let read = CollectedEntries()
            engine.engine.readLog(
                namespace.id, after: 0, through: 1, patience: 3_600_000, each: read.take, completion: read.finish)
            engine.stop()
            #expect(try #require(read.wait()).isEmpty)
        }
    }
}
