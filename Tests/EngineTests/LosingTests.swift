import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks connections that are lost in the middle of a COMMIT: each write is answered once, and is in the log as the
/// answer says.
@Suite struct LosingTests {
    @Test func batchThatDidNotArriveIsSentAgain() throws {
        try withProxy { url, proxy, engine in
            let namespace = try engine.namespace()
            #expect(namespace.write(.increment("n"))?.committedSeq == 1)
            proxy.cutNext(.beforeBatchArrives)
            #expect(namespace.write(.increment("n"))?.committedSeq == 2)
            #expect(proxy.cutCount == 1)
            #expect(engine.metrics.unknownCommits.current == 1)
            try check(url, namespace, total: 2)
        }
    }

    @Test func batchThatWasCommittedIsNotSentAgain() throws {
        try withProxy { url, proxy, engine in
            let namespace = try engine.namespace()
            #expect(namespace.write(.increment("n"))?.committedSeq == 1)
            proxy.cutNext(.beforeCommitAnswer)
            #expect(namespace.write(.increment("n"))?.committedSeq == 2)
            #expect(proxy.cutCount == 1)
            #expect(engine.metrics.unknownCommits.current == 1)
            try check(url, namespace, total: 2)
        }
    }

    @Test(arguments: [1, 100, 230, 1_000])
    func batchThatArrivedInPartIsSentAgain(bytes: Int) throws {
        try withProxy { url, proxy, engine in
            let namespace = try engine.namespace()
            #expect(namespace.write(.increment("n"))?.committedSeq == 1)
            proxy.cutNext(.insideBatch(bytes: bytes))
            #expect(namespace.write(.increment("n"))?.committedSeq == 2)
            #expect(proxy.cutCount == 1)
            try check(url, namespace, total: 2)
        }
    }

    /// The connection is lost several times in a row, each time in another way.
    @Test func losingAgainAndAgain() throws {
        try withProxy { url, proxy, engine in
            let namespace = try engine.namespace()
            #expect(namespace.write(.increment("n"))?.committedSeq == 1)
            proxy.cutNext(.beforeBatchArrives, times: 3)
            #expect(namespace.write(.increment("n"))?.committedSeq == 2)
            #expect(proxy.cutCount == 3)
            proxy.cutNext(.beforeCommitAnswer, times: 3)
            for total in 3...6 as ClosedRange<Int64> {
                #expect(namespace.write(.increment("n"))?.committedSeq == total)
            }
            try check(url, namespace, total: 6)
        }
    }

    /// The gateway gives the batch up for lost while it is still in flight: it arrives after the gateway has searched
    /// for it.
    @Test func batchThatArrivesLateIsNotWrittenTwice() throws {
        try withProxy { url, proxy, engine in
            let namespace = try engine.namespace()
            #expect(namespace.write(.increment("n"))?.committedSeq == 1)
            // The second attempt is held back as well, and the first then overtakes it.
            proxy.cutNext(.batchArrivesLate, times: 2)
            let sink = CollectingSink()
            namespace.submit(.increment("n"), to: sink, token: 1)
            #expect(eventually { proxy.heldCount == 2 || !sink.outcomes.isEmpty })
            proxy.releaseHeld()
            #expect(sink.outcome(1)?.committedSeq == 2)
            #expect(namespace.write(.increment("n"))?.committedSeq == 3)
            try check(url, namespace, total: 3)
        }
    }

    /// While gateways contend, the head's lock is acquired before batches are evaluated. Here the gateway is cut off
    /// while it holds the lock: the server must release it soon, though the connection looks alive to the server.
    @Test(arguments: [true, false])
    func cutOffWhileHoldingTheLock(arrives: Bool) throws {
        try withProxy { url, proxy, engine in
            let other = try TestEngine(url)
            defer { other.stop() }
            let namespace = try engine.namespace()
            let rival = try other.namespace()
            // Repeats until the two have met contention, so that the engine locks first.
            #expect(
                eventually {
                    _ = rival.write(.increment("other"))
                    _ = namespace.write(.increment("other"))
                    return engine.metrics.conflicts.current > 0
                })
            proxy.cutNext(.batchArrivesLate)
            let sink = CollectingSink()
            namespace.submit(.increment("n"), to: sink, token: 1)
            #expect(eventually { proxy.heldCount == 1 })
            if arrives { proxy.releaseHeld() }
            #expect(sink.outcome(1)?.committedSeq != nil)
            _ = try #require(namespace.write(.increment("n"))?.committedSeq)
            try check(url, namespace, total: 2)
        }
    }

    /// The batch arrives after the gateway has searched for it, and before the gateway acquires the head's lock to try
    /// again.
    @Test func lateBatchBetweenLookingAndLocking() throws {
        try withProxy { url, proxy, engine in
            let namespace = try engine.namespace()
            _ = namespace.write(.set("n", .int(0)))
            // The third attempt acquires the lock; the first two locks are those of the searches.
            proxy.cutNext(.batchArrivesLate, times: 2)
            proxy.releaseHeld(before: "lock_head#", occurrence: 3)
            #expect(namespace.write(.increment("n"))?.committedSeq != nil)
            #expect(proxy.cutCount == 2)
            #expect(proxy.heldCount == 0)
            try check(url, namespace, total: 1)
        }
    }

    /// Cuts connections at random under load from two engines: every acknowledged increment counts once, and no other
    /// does.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func randomCuts(seed: UInt64) throws {
        try withProxy { url, proxy, engine in
            let direct = try TestEngine(url)
            defer { direct.stop() }
            let namespaces = [try engine.namespace(), try direct.namespace()]
            let isDone = MutexBox(false)
            let cutter = Thread(name: "cutter") {
                var random = SeededGenerator(seed: seed)
                let cuts: [CuttingProxy.Cut] = [
                    .beforeBatchArrives, .beforeCommitAnswer, .insideBatch(bytes: 200), .batchArrivesLate,
                ]
                var expected = 0
                while !isDone.withLock({ $0 }) {
                    let cut = random.pick(cuts)
                    expected = proxy.cutCount + 1
                    proxy.cutNext(cut)
                    _ = eventually(seconds: 5) { proxy.cutCount >= expected || isDone.withLock { $0 } }
                    if cut == .batchArrivesLate { proxy.releaseHeld() }
                }
            }
            let sinks = [CollectingSink(), CollectingSink()]
            let each = 400
            let writers = zip(namespaces, sinks).map { namespace, sink in
                Thread(name: "writer") {
                    for token in 0..<UInt64(each) {
                        namespace.submit(.increment("n"), to: sink, token: token)
                        if token % 3 == 0 { _ = sink.outcome(token) }
                    }
                }
            }
            for writer in writers { writer.join() }
            let outcomes = sinks.map { $0.all(each) }
            isDone.withLock { $0 = true }
            cutter.join()
            for (sink, outcomes) in zip(sinks, outcomes) {
                #expect(sink.repeated.isEmpty)
                #expect(try #require(outcomes).values.allSatisfy { $0.committedSeq != nil })
            }
            #expect(proxy.cutCount > 0)
            let stored = try StoredState(url)
            #expect(stored.root[Path(splitting: "n")] == .int(Int64(each * 2)))
            #expect(stored.head == Int64(each * 2))
            stored.check(equals: namespaces)
        }
    }

    /// The namespace of a lost batch is removed, or moves, before the gateway searches for the batch. No commit has failed.
    @Test func namespaceThatGoesWhileABatchIsLost() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let lines = LoggedLines(level: .notice)
            let engine = try TestEngine(proxy.url, logger: lines.logger) { settings, _ in
                settings.commitDeadlineMilliseconds = 60_000
            }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            #expect(namespace.write(.increment("n"))?.committedSeq == 1)
            let connection = try LogConnection(url)
            defer { connection.close() }
            #expect(try connection.removeNamespace(namespace.id))
            proxy.cutNext(.beforeBatchArrives)
            // Answered at once, and not at the deadline: nothing can be found out any more.
            #expect(namespace.write(.increment("n"))?.failure == .outcomeUnknown)
            #expect(proxy.cutCount == 1)
            #expect(namespace.hasEnded)
            #expect(lines.lines(with: "namespace removed").count == 1)
            #expect(lines.lines(with: "commit failed") == [])
        }
    }

    private func check(
        _ url: PostgresURL, _ namespace: LiveNamespace, total: Int64, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let stored = try StoredState(url)
        #expect(stored.root[Path(splitting: "n")] == .int(total), sourceLocation: sourceLocation)
        stored.check(equals: [namespace], sourceLocation: sourceLocation)
    }

    /// Runs the body with an engine that reaches its database through a proxy.
    private func withProxy(_ body: (PostgresURL, CuttingProxy, TestEngine) throws -> Void) throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in
                settings.pollMilliseconds = 50
                settings.commitDeadlineMilliseconds = 6_000
            }
            defer { engine.stop() }
            try body(url, proxy, engine)
        }
    }
}
