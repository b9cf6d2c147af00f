import Engine
import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

/// Checks batches of several namespaces in one transaction: each has the same result as alone.
@Suite struct SharedTransactionTests {
    private static let sign = Array("append_log_joint#".utf8)

    @Test func whatWaitsTogetherIsCommittedTogether() throws {
        try withHeldEngine { held, _, namespaces in
            let listeners = namespaces.map { namespace in
                let listener = RecordingListener()
                listener.started(namespace.subscribe(listener, at: .root), at: .root)
                return listener
            }
            try held.hold()
            let sinks = namespaces.map { _ in CollectingSink() }
            for token in 0..<3 as Range<UInt64> {
                for (namespace, sink) in zip(namespaces, sinks) {
                    namespace.submit(.increment("n"), to: sink, token: token)
                }
            }
            try held.evict()
            for sink in sinks {
                #expect(sink.all(3)?.sorted { $0.key < $1.key }.map(\.value.committedSeq) == [2, 3, 4])
                #expect(sink.order == [0, 1, 2] && sink.repeated.isEmpty)
            }
            #expect(held.engine.metrics.sharedTransactions.current == 1)
            #expect(held.engine.metrics.sharedTransactionNamespaces.current == 8)
            for listener in listeners {
                let reported = try #require(listener.wait { $0.seqs.count == 3 })
                #expect(reported.seqs == [2, 3, 4] && reported.mistakes.isEmpty)
            }
            try checkCounts(held.url, namespaces, counts: 4)
        }
    }

    /// Another session has written to one of the namespaces and keeps its lock: the others are committed meanwhile, and
    /// that one follows.
    @Test func aWaitingWriteDelaysNoOther() throws {
        try withHeldEngine(committers: 2) { held, _, namespaces in
            try held.hold()
            let writer = try PostgresConnection(held.url.withApplicationName("psql"))
            defer { writer.close() }
            try writer.executeScript("begin; select pathmirror.set('n3', '/n', '100')")
            let sinks = submit(.increment("n"), to: namespaces)
            try held.evict()
            for (number, sink) in sinks.enumerated() where number != 3 { #expect(sink.outcome(1)?.committedSeq == 2) }
            #expect(sinks[3].outcomes.isEmpty)
            #expect(held.engine.metrics.sharedTransactionRetries.current >= 1)
            try writer.executeScript("commit")
            #expect(sinks[3].outcome(1)?.committedSeq == 3)
            try checkCounts(held.url, namespaces.filter { $0.name != "n3" }, counts: 2)
            try checkCounts(held.url, [namespaces[3]], counts: 101)
        }
    }

    @Test(arguments: [
        CuttingProxy.Cut.beforeBatchArrives, .beforeCommitAnswer, .insideBatch(bytes: 300), .insideBatch(bytes: 2_000),
    ])
    func cutDuringTheCommit(cut: CuttingProxy.Cut) throws {
        try withHeldEngine(proxied: true) { held, proxy, namespaces in
            try held.hold()
            proxy?.cutNext(cut, at: Self.sign)
            let sinks = submit(.increment("n"), to: namespaces)
            try held.evict()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2 && sink.repeated.isEmpty) }
            #expect(proxy?.cutCount == 1)
            #expect(held.engine.metrics.unknownCommits.current >= 8)
            try checkCounts(held.url, namespaces, counts: 2)
        }
    }

    /// The transaction arrives after its batches have been searched for and sent again, or just before.
    @Test func transactionThatArrivesLate() throws {
        try withHeldEngine(proxied: true) { held, proxy, namespaces in
            try held.hold()
            proxy?.cutNext(.batchArrivesLate, at: Self.sign)
            let sinks = submit(.increment("n"), to: namespaces)
            try held.evict()
            #expect(eventually { proxy?.heldCount == 1 })
            proxy?.releaseHeld()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2 && sink.repeated.isEmpty) }
            try checkCounts(held.url, namespaces, counts: 2)
        }
    }

    /// One write was executed before on another gateway: it is not executed again, and the other batches are not
    /// affected.
    @Test func namedWriteThatWasDone() throws {
        try withHeldEngine { held, _, namespaces in
            let name = try #require(WriteName(writer: "writer-1", number: 1))
            func named() -> Write {
                let sum = Change(path: Path(splitting: "n"), value: .serverValue(ServerValue(.increment(.int(1)))))
                return Write(
                    .update(base: .root, [sum]), operation: .update, hasServerValue: true, byteCount: 30, auth: .admin,
                    name: name)
            }
            #expect(namespaces[5].write(named())?.committedSeq == 2)
            // A fresh engine knows none of the earlier writes.
            let fresh = try HeldEngine(held.url)
            defer { fresh.stop() }
            let those = try namespaces.map { try fresh.engine.namespace($0.name) }
            try fresh.hold()
            let sinks = those.map { _ in CollectingSink() }
            for (namespace, sink) in zip(those, sinks) { namespace.submit(named(), to: sink, token: 1) }
            try fresh.evict()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2) }
            #expect(fresh.engine.metrics.sharedTransactionRetries.current == 1)
            try checkCounts(held.url, those, counts: 2)
        }
    }

    /// New rules apply to the writes after them; a refused write is refused alone.
    @Test func rulesAndRefusalsAmongOthers() throws {
        try withHeldEngine { held, _, namespaces in
            let rules = try RuleSet(json: Array("{\"rules\":{\"n\":{\".write\":true}}}".utf8))
            try held.hold()
            let sinks = namespaces.map { _ in CollectingSink() }
            for (number, (namespace, sink)) in zip(namespaces, sinks).enumerated() {
                if number == 2 {
                    namespace.submit(
                        Write(.rules(rules), operation: .rules, byteCount: 40, auth: .admin), to: sink, token: 0)
                }
                let write = Write(
                    .set(Path(splitting: "n"), .int(7)), operation: .set, byteCount: 8, auth: .unauthenticated)
                namespace.submit(write, to: sink, token: 1)
                namespace.submit(.set("n", .int(7)), to: sink, token: 2)
            }
            try held.evict()
            for (number, sink) in sinks.enumerated() {
                let first = try #require(sink.outcome(1))
                if case .denied = first { #expect(number != 2) } else { #expect(number == 2) }
                #expect(sink.outcome(2)?.committedSeq == (number == 2 ? 4 : 2))
            }
            #expect(held.engine.metrics.sharedTransactions.current == 1)
            try checkCounts(held.url, namespaces, counts: 7)
        }
    }
}
