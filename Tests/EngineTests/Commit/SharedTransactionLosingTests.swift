import Engine
import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

/// Checks transactions of several namespaces whose outcome the gateway does not receive, and engines that stop
/// meanwhile.
@Suite struct SharedTransactionLosingTests {
    private static let sign = Array("append_log_joint#".utf8)

    /// The connection is lost in the transaction, and the next connection in the first search for the transaction's
    /// outcome.
    @Test(arguments: [CuttingProxy.Cut.beforeBatchArrives, .beforeCommitAnswer])
    func twoCutsInARow(cut: CuttingProxy.Cut) throws {
        try withHeldEngine(proxied: true) { held, proxy, namespaces in
            try held.hold()
            // Both the transaction and the search begin with this statement, and nothing else that this engine sends
            // does.
            proxy?.cutNext(cut, times: 2, at: Array("begin#".utf8))
            let sinks = submit(.increment("n"), to: namespaces)
            try held.evict()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2 && sink.repeated.isEmpty) }
            #expect(proxy?.cutCount == 2)
            #expect(held.engine.metrics.unknownCommits.current == 8)
            for namespace in namespaces { #expect(namespace.write(.increment("n"))?.committedSeq == 3) }
            try checkCounts(held.url, namespaces, counts: 3)
        }
    }

    /// The network silently drops packets from the transaction on. At the deadline all of its writes are answered: the
    /// engine does not try to reach the unresponsive server once more for each of them.
    @Test func manyThatAreLostInASilentNetwork() throws {
        try withHeldEngine(proxied: true, namespaces: 60) {
            $0.commitDeadlineMilliseconds = 6_000
            $0.pollMilliseconds = 100
        } _: { held, proxy, namespaces in
            let proxy = try #require(proxy)
            try held.hold()
            proxy.cutNext(.silenceFromBatch, at: Self.sign)
            let sinks = submit(.increment("n"), to: namespaces)
            try held.evict()
            #expect(sinks[0].outcome(1, seconds: 60)?.failure == .outcomeUnknown)
            let attempts = proxy.lossCount
            for sink in sinks { #expect(sink.outcome(1, seconds: 60)?.failure == .outcomeUnknown) }
            // Other threads also try now and then.
            #expect(proxy.lossCount - attempts < 12)
            proxy.setSwallowing(false)
            #expect(eventually { held.engine.engine.health.isUp })
            for namespace in namespaces {
                #expect(eventually { namespace.write(.set("n", .int(5)))?.committedSeq != nil })
            }
            try checkCounts(held.url, namespaces, counts: 5)
        }
    }

    /// A stop of the engine then waits for one attempt, not for one per batch.
    @Test func stoppingInASilentNetwork() throws {
        try withHeldEngine(proxied: true, namespaces: 60) {
            $0.commitDeadlineMilliseconds = 6_000
            $0.pollMilliseconds = 100
        } _: { held, proxy, namespaces in
            let proxy = try #require(proxy)
            try held.hold()
            proxy.cutNext(.silenceFromBatch, at: Self.sign)
            let sinks = submit(.increment("n"), to: namespaces)
            try held.evict()
            // The transaction has been given up, and the committer searches for its outcome.
            #expect(eventually { held.engine.metrics.unknownCommits.current == 60 })
            #expect(eventually { !held.engine.engine.health.isUp })
            let attempts = proxy.lossCount
            held.stopEngine(milliseconds: 0)
            #expect(proxy.lossCount - attempts < 12)
            for sink in sinks { #expect(sink.outcomes[1]?.failure == .outcomeUnknown && sink.repeated.isEmpty) }
            proxy.setSwallowing(false)
            for namespace in namespaces { try StoredState(held.url, namespace.name).check() }
        }
    }

    /// Batches that were sent are awaited and answered, whether or not the engine waits for queued writes; so are
    /// batches that have to be sent once more.
    @Test(arguments: [0, 20_000] as [Int64], [false, true])
    func stoppingInTheTransaction(milliseconds: Int64, isConflict: Bool) throws {
        try withHeldEngine {
            $0.sharedTransactionLockMilliseconds = 20_000
        } _: { held, _, namespaces in
            try held.hold()
            let writer = try PostgresConnection(held.url.withApplicationName("psql"))
            defer { writer.close() }
            try writer.executeScript("begin; select pathmirror.set('n3', '/n', '100')")
            let sinks = submit(.increment("n"), to: namespaces)
            try held.evict()
            #expect(try held.waiting(for: writer))
            let engine = held.engine.engine
            let isStopping = Condition(false)
            let stopper = Thread(name: "stopper") {
                isStopping.broadcast { $0 = true }
                engine.stop(milliseconds: milliseconds)
            }
            #expect(isStopping.wait(milliseconds: 60_000) { $0 ? true : nil } == true)
            let late = CollectingSink()
            var tries: UInt64 = 0
            #expect(
                eventually {
                    tries += 1
                    namespaces[0].submit(.recall, to: late, token: tries)
                    return late.outcomes[tries]?.failure == .stopping
                })
            try writer.executeScript(isConflict ? "commit" : "rollback")
            stopper.join()
            held.noteStopped()
            for (number, sink) in sinks.enumerated() {
                let seq = sink.outcomes[1]?.committedSeq
                #expect(seq == (isConflict && number == 3 ? 3 : 2) && sink.repeated.isEmpty)
            }
            #expect(held.engine.metrics.sharedTransactions.current == (isConflict ? 0 : 1))
            for (number, namespace) in namespaces.enumerated() {
                let stored = try StoredState(held.url, namespace.name)
                stored.check()
                #expect(stored.root[Path(splitting: "n")] == .int(isConflict && number == 3 ? 101 : 2))
            }
        }
    }
}

extension Write {
    /// A write that does nothing and is never committed.
    fileprivate static var recall: Write { Write(.recall, operation: .set, byteCount: 0, auth: .admin) }
}
