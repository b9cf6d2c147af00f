import Glibc
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks that each write is executed once, in order, and answered as the log says if the connection is lost with
/// several batches in flight.
@Suite struct ChainLosingTests {
    /// The server ends the connection before it has executed either batch.
    @Test func theServerEndsTheConnection() throws {
        try withChainedBatches { batches in
            try batches.begin()
            batches.follow()
            batches.waitUntilLagging()
            let administrator = try PostgresConnection(batches.url)
            defer { administrator.close() }
            try administrator.execute(
                """
                select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and \(batches.holder.backendPID) = any (pg_blocking_pids(pid))
                """)
            #expect(eventually { batches.engine.metrics.unknownCommits.current >= 1 })
            try batches.holder.executeScript("rollback")
            try batches.checkAll()
            #expect(batches.engine.metrics.unknownCommits.current == 2)
        }
    }

    /// The second batch is cut on its way to the server while the first one waits.
    @Test(arguments: [
        CuttingProxy.Cut.beforeBatchArrives, .insideBatch(bytes: 1), .insideBatch(bytes: 300), .beforeCommitAnswer,
    ])
    func theSecondIsCut(cut: CuttingProxy.Cut) throws {
        try withChainedBatches(proxied: true) { batches in
            try batches.begin()
            batches.proxy?.cutNext(cut)
            batches.follow()
            if cut == .beforeCommitAnswer {
                batches.waitUntilLagging()
            } else {
                #expect(eventually { batches.proxy?.cutCount == 1 })
            }
            try batches.holder.executeScript("rollback")
            try batches.checkAll()
            #expect(batches.proxy?.cutCount == 1)
            #expect(batches.engine.metrics.unknownCommits.current >= 1)
        }
    }

    /// The second batch arrives after the gateway has given up both batches and searched for them: the log then
    /// contains this batch or the one that was sent instead.
    @Test(arguments: [0, 1, 2, 3, 4])
    func theSecondArrivesLate(round: Int) throws {
        try withChainedBatches(proxied: true) { batches in
            let proxy = try #require(batches.proxy)
            try batches.begin()
            proxy.cutNext(.batchArrivesLate, times: 1 + round % 3)
            batches.follow()
            #expect(eventually { proxy.heldCount >= 1 })
            // Each round releases it later: it has the old connection to itself, while the search on the new one waits
            // for the lock.
            if round == 0 { proxy.releaseHeld() }
            if round == 1 { proxy.releaseHeld(before: "lock_head#", occurrence: 1) }
            if round == 3 { proxy.releaseHeld(before: "lock_head#", occurrence: 2) }
            try batches.holder.executeScript("rollback")
            if round == 2 || round == 4 {
                #expect(eventually { proxy.heldCount >= 2 || batches.sink.outcomes.count == 31 })
            }
            proxy.releaseHeld()
            #expect(
                eventually(seconds: 60) {
                    proxy.releaseHeld()
                    return batches.sink.outcomes.count == 31
                })
            try batches.checkAll()
        }
    }

    /// The database stays unavailable for longer than the deadline: no write that was committed is reported as not
    /// written.
    @Test func theDatabaseStaysAway() throws {
        try withChainedBatches(proxied: true) {
            $0.commitDeadlineMilliseconds = 2_000
        } _: { batches in
            let proxy = try #require(batches.proxy)
            try batches.begin()
            batches.follow()
            batches.waitUntilLagging()
            proxy.setDown(true)
            let outcomes = try #require(batches.sink.all(31))
            for token in 0..<batches.after.upperBound {
                let failure = try #require(outcomes[token]?.failure)
                guard case .unavailable = failure else {
                    #expect(failure == .outcomeUnknown)
                    continue
                }
            }
            try batches.holder.executeScript("rollback")
            proxy.setDown(false)
            #expect(eventually { batches.namespace.write(.increment("m"))?.committedSeq != nil })
            try StoredState(batches.url).check(equals: [batches.namespace])
            #expect(try verify(batches.url).isClean)
        }
    }

    /// If it is unknown whether the first batch will still be written when its writers are answered, the writes after
    /// it may be written with it. They are not reported as refused, even if they would fail without the first batch.
    @Test func allIsUnknownAfterAnUnknownBatch() throws {
        try withChainedBatches(proxied: true) {
            $0.commitDeadlineMilliseconds = 3_000
        } _: { batches in
            let proxy = try #require(batches.proxy)
            try batches.begin(.set("lock", .string("a")))
            // The deadline of these writes has to be later than that of the first.
            usleep(1_500_000)
            batches.follow(30, .set("lock", .string("b"), expecting: Node.string("a").hash))
            batches.waitUntilLagging()
            proxy.setDown(true)
            // The transaction in flight is rolled back, which only the server knows.
            let administrator = try PostgresConnection(batches.url)
            defer { administrator.close() }
            try administrator.execute(
                """
                select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and \(batches.holder.backendPID) = any (pg_blocking_pids(pid))
                """)
            try batches.holder.executeScript("rollback")
            #expect(batches.sink.outcome(0)?.failure == .outcomeUnknown)
            proxy.setDown(false)
            let outcomes = try #require(batches.sink.all(31))
            #expect(outcomes[1]?.failure == .outcomeUnknown)
            for token in batches.after {
                guard case .failed = outcomes[token] else {
                    Issue.record("\(String(describing: outcomes[token]))")
                    return
                }
            }
            #expect(eventually { batches.namespace.write(.increment("m"))?.committedSeq != nil })
            try StoredState(batches.url).check(equals: [batches.namespace])
        }
    }

    /// The server commits the first batch or both without the standby: no writer is answered before the outcome is
    /// certain.
    @Test func committedWithoutTheStandby() throws {
        let server = try LonelyServer()
        let batches = try ChainedBatches(server.url)
        defer { batches.stop() }
        try batches.begin()
        batches.follow()
        batches.waitUntilLagging()
        try server.synchronous(true)
        try server.cancellingWaits {
            try batches.holder.executeScript("rollback")
            #expect(eventually { batches.engine.metrics.unknownCommits.current >= 1 })
        }
        #expect(batches.sink.outcomes.isEmpty)
        try server.synchronous(false)
        try batches.checkAll()
    }

    /// Cuts connections at random while many threads write: each acknowledged write counts once, and no other write
    /// counts.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func randomCuts(seed: UInt64) throws {
        try withChainedBatches(proxied: true) {
            $0.batchesInFlight = 2 + Int(seed % 3)
            $0.pollMilliseconds = 50
        } _: { batches in
            let proxy = try #require(batches.proxy)
            let metrics = batches.engine.metrics
            let isDone = MutexBox(false)
            let cutter = Thread(name: "cutter") {
                var random = SeededGenerator(seed: seed)
                let cuts: [CuttingProxy.Cut] = [
                    .beforeBatchArrives, .beforeCommitAnswer, .insideBatch(bytes: 300), .batchArrivesLate,
                ]
                var after = 0
                while !isDone.withLock({ $0 }) {
                    // There has to be a batch in flight between two cuts.
                    guard eventually(seconds: 1, { metrics.pipelinedBatches.current > after }) else { continue }
                    after = metrics.pipelinedBatches.current
                    let cut = random.pick(cuts)
                    let expected = proxy.cutCount + 1
                    proxy.cutNext(cut)
                    _ = eventually(seconds: 5) { proxy.cutCount >= expected || isDone.withLock { $0 } }
                    if cut == .batchArrivesLate { proxy.releaseHeld() }
                }
            }
            let sinks = (0..<40).map { _ in CollectingSink() }
            var each = 0
            // On a busy machine no batch may follow another for a while.
            repeat {
                writeMuch(batches.namespace, sinks, each..<each + 300)
                each += 300
            } while (proxy.cutCount == 0 || metrics.pipelinedBatches.current == 0) && each < 30_000
            let outcomes = sinks.map { $0.all(each) }
            isDone.withLock { $0 = true }
            cutter.join()
            for (sink, outcomes) in zip(sinks, outcomes) {
                #expect(sink.repeated.isEmpty && sink.order == Array(0..<UInt64(each)))
                #expect(try #require(outcomes).values.allSatisfy { $0.committedSeq != nil })
            }
            #expect(proxy.cutCount > 0)
            #expect(metrics.pipelinedBatches.current > 0)
            try batches.checkStored(n: batches.before + Int64(each * sinks.count))
        }
    }

    /// Starts four threads, each of which writes for a quarter of the sinks.
    private func writeMuch(_ namespace: LiveNamespace, _ sinks: [CollectingSink], _ tokens: Range<Int>) {
        let writers = (0..<4).map { number in
            Thread(name: "writer") {
                let mine = sinks[(number * sinks.count / 4)..<((number + 1) * sinks.count / 4)]
                for token in tokens {
                    for sink in mine { namespace.submit(.increment("n"), to: sink, token: UInt64(token)) }
                    for sink in mine where token % 4 == 0 { _ = sink.outcome(UInt64(token)) }
                }
            }
        }
        for writer in writers { writer.join() }
    }
}
