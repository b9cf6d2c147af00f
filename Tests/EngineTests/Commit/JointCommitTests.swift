import Engine
import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

/// Batches of several namespaces in one transaction: each is as it would be alone.
@Suite struct JointCommitTests {
    /// An engine whose committers are all kept waiting, so that what is written meanwhile waits for them together.
    private final class Held {
        let url: PostgresURL
        let engine: TestEngine
        private let holder: PostgresConnection
        private let names: [String]
        private let sink = CollectingSink()

        init(_ url: PostgresURL, by way: PostgresURL? = nil, committers: Int = 1) throws {
            self.url = url
            engine = try TestEngine(way ?? url) { settings, _ in
                settings.committers = committers
                settings.commitDeadlineMilliseconds = 20_000
            }
            names = (0..<committers).map { "hold\($0)" }
            holder = try PostgresConnection(url.withApplicationName("psql"))
            for name in names { _ = try engine.namespace(name).write(.increment("n")) }
        }

        /// Begins to keep the committers waiting.
        func hold() throws {
            let all = names.map { "'\($0)'" }.joined(separator: ",")
            try holder.executeScript("begin; select 1 from pathmirror.namespace where name in (\(all)) for update")
            for (number, name) in names.enumerated() {
                try engine.namespace(name).submit(.increment("n"), to: sink, token: UInt64(number))
            }
            let look = try PostgresConnection(url)
            defer { look.close() }
            let waits =
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            let count = Int64(names.count)
            #expect(eventually { (try? look.execute(waits).int64(0, 0)) == count })
        }

        func letGo() throws { try holder.executeScript("rollback") }

        func stop() {
            holder.close()
            engine.stop()
        }
    }

    private func withHeld(
        committers: Int = 1, proxied: Bool = false, _ body: (Held, CuttingProxy?, [LiveNamespace]) throws -> Void
    ) throws {
        try withDatabase { url in
            let proxy = proxied ? try CuttingProxy(url) : nil
            defer { proxy?.stop() }
            let held = try Held(url, by: proxy?.url, committers: committers)
            defer { held.stop() }
            let namespaces = try (0..<8).map { try held.engine.namespace("n\($0)") }
            for namespace in namespaces { #expect(namespace.write(.increment("n"))?.committedSeq == 1) }
            try body(held, proxy, namespaces)
        }
    }

    /// Each namespace has `n` that often, its entries and its tree are right, and the engine has them.
    private func check(
        _ url: PostgresURL, _ namespaces: [LiveNamespace], counts: Int64,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        for namespace in namespaces {
            let stored = try StoredState(url, namespace.name)
            #expect(stored.root[Path(splitting: "n")] == .int(counts), sourceLocation: sourceLocation)
            stored.check(equals: [namespace], sourceLocation: sourceLocation)
            #expect(try verify(url, namespace.name).isClean, sourceLocation: sourceLocation)
        }
    }

    private static let sign = Array("append_log_joint#".utf8)

    @Test func whatWaitsTogetherIsCommittedTogether() throws {
        try withHeld { held, _, namespaces in
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
            try held.letGo()
            for sink in sinks {
                #expect(sink.all(3)?.sorted { $0.key < $1.key }.map(\.value.committedSeq) == [2, 3, 4])
                #expect(sink.order == [0, 1, 2] && sink.repeated.isEmpty)
            }
            #expect(held.engine.metrics.jointTransactions.current == 1)
            #expect(held.engine.metrics.jointNamespaces.current == 8)
            for listener in listeners {
                let told = try #require(listener.wait { $0.seqs.count == 3 })
                #expect(told.seqs == [2, 3, 4] && told.mistakes.isEmpty)
            }
            try check(held.url, namespaces, counts: 4)
        }
    }

    /// Somebody has written to one of them and keeps its lock: the others are committed while it waits, and then it follows.
    @Test func oneThatWaitsHoldsNobodyUp() throws {
        try withHeld(committers: 2) { held, _, namespaces in
            try held.hold()
            let writer = try PostgresConnection(held.url.withApplicationName("psql"))
            defer { writer.close() }
            try writer.executeScript("begin; select pathmirror.set('n3', '/n', '100')")
            let sinks = namespaces.map { _ in CollectingSink() }
            for (namespace, sink) in zip(namespaces, sinks) { namespace.submit(.increment("n"), to: sink, token: 1) }
            try held.letGo()
            for (number, sink) in sinks.enumerated() where number != 3 { #expect(sink.outcome(1)?.committedSeq == 2) }
            #expect(sinks[3].outcomes.isEmpty)
            #expect(held.engine.metrics.jointRetries.current >= 1)
            try writer.executeScript("commit")
            #expect(sinks[3].outcome(1)?.committedSeq == 3)
            try check(held.url, namespaces.filter { $0.name != "n3" }, counts: 2)
            try check(held.url, [namespaces[3]], counts: 101)
        }
    }

    @Test(arguments: [
        CuttingProxy.Cut.beforeBatchArrives, .beforeCommitAnswer, .insideBatch(bytes: 300), .insideBatch(bytes: 2_000),
    ])
    func cutDuringTheCommit(cut: CuttingProxy.Cut) throws {
        try withHeld(proxied: true) { held, proxy, namespaces in
            try held.hold()
            proxy?.cutNext(cut, at: Self.sign)
            let sinks = namespaces.map { _ in CollectingSink() }
            for (namespace, sink) in zip(namespaces, sinks) { namespace.submit(.increment("n"), to: sink, token: 1) }
            try held.letGo()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2 && sink.repeated.isEmpty) }
            #expect(proxy?.cutCount == 1)
            #expect(held.engine.metrics.unknownCommits.current >= 8)
            try check(held.url, namespaces, counts: 2)
        }
    }

    /// The transaction arrives when its batches have been searched for and sent again, or just before that.
    @Test func transactionThatArrivesLate() throws {
        try withHeld(proxied: true) { held, proxy, namespaces in
            try held.hold()
            proxy?.cutNext(.batchArrivesLate, at: Self.sign)
            let sinks = namespaces.map { _ in CollectingSink() }
            for (namespace, sink) in zip(namespaces, sinks) { namespace.submit(.increment("n"), to: sink, token: 1) }
            try held.letGo()
            #expect(eventually { proxy?.heldCount == 1 })
            proxy?.releaseHeld()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2 && sink.repeated.isEmpty) }
            try check(held.url, namespaces, counts: 2)
        }
    }

    /// One write was done on another gateway before: it is not done again, and the others are none the wiser.
    @Test func namedWriteThatWasDone() throws {
        try withHeld { held, _, namespaces in
            let name = try #require(WriteName(writer: "writer-1", number: 1))
            func named() -> Write {
                let sum = Change(path: Path(splitting: "n"), value: .serverValue(ServerValue(.increment(.int(1)))))
                return Write(
                    .update(base: .root, [sum]), operation: .update, hasServerValue: true, byteCount: 30, auth: .admin,
                    name: name)
            }
            #expect(namespaces[5].write(named())?.committedSeq == 2)
            // A fresh engine knows nothing of what was done.
            let fresh = try Held(held.url)
            defer { fresh.stop() }
            let those = try namespaces.map { try fresh.engine.namespace($0.name) }
            try fresh.hold()
            let sinks = those.map { _ in CollectingSink() }
            for (namespace, sink) in zip(those, sinks) { namespace.submit(named(), to: sink, token: 1) }
            try fresh.letGo()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2) }
            #expect(fresh.engine.metrics.jointRetries.current == 1)
            try check(held.url, those, counts: 2)
        }
    }

    /// New rules hold for the writes behind them; what is refused, is refused alone.
    @Test func rulesAndRefusalsAmongOthers() throws {
        try withHeld { held, _, namespaces in
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
            try held.letGo()
            for (number, sink) in sinks.enumerated() {
                let first = try #require(sink.outcome(1))
                if case .denied = first { #expect(number != 2) } else { #expect(number == 2) }
                #expect(sink.outcome(2)?.committedSeq == (number == 2 ? 4 : 2))
            }
            #expect(held.engine.metrics.jointTransactions.current == 1)
            try check(held.url, namespaces, counts: 7)
        }
    }
}
