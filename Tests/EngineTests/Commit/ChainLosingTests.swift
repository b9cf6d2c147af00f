import Glibc
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Several batches are under way when the connection is lost: each write is done once, in order, and answered as the log says.
@Suite struct ChainLosingTests {
    /// The server ends the connection before it has done anything of either.
    @Test func theServerEndsTheConnection() throws {
        try withChainedBatches { batches in
            try batches.begin()
            batches.follow()
            batches.waitUntilBehind()
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

    /// The second batch is cut, on its way there, with the first one waiting.
    @Test(arguments: [
        CuttingProxy.Cut.beforeBatchArrives, .insideBatch(bytes: 1), .insideBatch(bytes: 300), .beforeCommitAnswer,
    ])
    func theSecondIsCut(cut: CuttingProxy.Cut) throws {
        try withChainedBatches(proxied: true) { batches in
            try batches.begin()
            batches.proxy?.cutNext(cut)
            batches.follow()
            if cut == .beforeCommitAnswer {
                batches.waitUntilBehind()
            } else {
                #expect(eventually { batches.proxy?.cutCount == 1 })
            }
            try batches.holder.executeScript("rollback")
            try batches.checkAll()
            #expect(batches.proxy?.cutCount == 1)
            #expect(batches.engine.metrics.unknownCommits.current >= 1)
        }
    }

    /// The second batch arrives when the gateway has given up both and looked for them: it may still be written, or what was sent in
    /// its place is.
    @Test(arguments: [0, 1, 2, 3, 4])
    func theSecondArrivesLate(round: Int) throws {
        try withChainedBatches(proxied: true) { batches in
            let proxy = try #require(batches.proxy)
            try batches.begin()
            proxy.cutNext(.batchArrivesLate, times: 1 + round % 3)
            batches.follow()
            #expect(eventually { proxy.heldCount >= 1 })
            // Round by round later: it has the old connection to itself, and the new one searches behind the lock.
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

    /// The database goes away, and stays away for longer than anybody waits: nobody is told that anything was not written which was.
    @Test func theDatabaseStaysAway() throws {
        try withChainedBatches(proxied: true) {
            $0.commitDeadlineMilliseconds = 2_000
        } _: { batches in
            let proxy = try #require(batches.proxy)
            try batches.begin()
            batches.follow()
            batches.waitUntilBehind()
            proxy.setDown(true)
            let outcomes = try #require(batches.sink.all(31))
            for token in 0..<batches.behind.upperBound {
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

    /// Nobody knows whether the first batch will still be written when its writers are told so. What is behind it may be written with it,
    /// and is not told as refused, whatever it would be without.
    @Test func behindAnUnknownBatchAllIsUnknown() throws {
        try withChainedBatches(proxied: true) {
            $0.commitDeadlineMilliseconds = 3_000
        } _: { batches in
            let proxy = try #require(batches.proxy)
            try batches.begin(.set("lock", .string("a")))
            // Their deadline is to be later than that of the first.
            usleep(1_500_000)
            batches.follow(30, .set("lock", .string("b"), expecting: Node.string("a").hash))
            batches.waitUntilBehind()
            proxy.setDown(true)
            // What is under way comes to nothing, and only the server knows.
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
            for token in batches.behind {
                guard case .failed = outcomes[token] else {
                    Issue.record("\(String(describing: outcomes[token]))")
                    return
                }
            }
            #expect(eventually { batches.namespace.write(.increment("m"))?.committedSeq != nil })
            try StoredState(batches.url).check(equals: [batches.namespace])
        }
    }

    /// The server says that it has committed alone, of the first or of both: nobody is told before it is sure.
    @Test func committedWithoutTheStandby() throws {
        let server = try LonelyServer()
        let batches = try ChainedBatches(server.url)
        defer { batches.stop() }
        try batches.begin()
        batches.follow()
        batches.waitUntilBehind()
        try server.synchronous(true)
        try server.cancellingWaits {
            try batches.holder.executeScript("rollback")
            #expect(eventually { batches.engine.metrics.unknownCommits.current >= 1 })
        }
        #expect(batches.sink.outcomes.isEmpty)
        try server.synchronous(false)
        try batches.checkAll()
    }

    /// Random cuts while many write: every write that was acknowledged counts once, and nothing else does.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func randomCuts(seed: UInt64) throws {
        try withChainedBatches(proxied: true) {
            $0.batchesUnderWay = 2 + Int(seed % 3)
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
                var behind = 0
                while !isDone.withLock({ $0 }) {
                    // Between two of them there is something to be cut.
                    guard eventually(seconds: 1, { metrics.batchesBehind.current > behind }) else { continue }
                    behind = metrics.batchesBehind.current
                    let cut = random.pick(cuts)
                    let expected = proxy.cutCount + 1
                    proxy.cutNext(cut)
                    _ = eventually(seconds: 5) { proxy.cutCount >= expected || isDone.withLock { $0 } }
                    if cut == .batchArrivesLate { proxy.releaseHeld() }
                }
            }
            let sinks = (0..<40).map { _ in CollectingSink() }
            var each = 0
            // A busy machine may let no batch follow another for a while.
            repeat {
                writeMuch(batches.namespace, sinks, each..<each + 300)
                each += 300
            } while (proxy.cutCount == 0 || metrics.batchesBehind.current == 0) && each < 30_000
            let outcomes = sinks.map { $0.all(each) }
            isDone.withLock { $0 = true }
            cutter.join()
            for (sink, outcomes) in zip(sinks, outcomes) {
                #expect(sink.repeated.isEmpty && sink.order == Array(0..<UInt64(each)))
                #expect(try #require(outcomes).values.allSatisfy { $0.committedSeq != nil })
            }
            #expect(proxy.cutCount > 0)
            #expect(metrics.batchesBehind.current > 0)
            try batches.checkStored(n: batches.before + Int64(each * sinks.count))
        }
    }

    /// Four threads, each of which writes for a quarter of the sinks.
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
