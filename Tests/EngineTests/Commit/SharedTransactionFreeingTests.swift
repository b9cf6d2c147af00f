import Engine
import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that namespaces that share a transaction don't wait for another's slow batch, and that a slow namespace is
/// excluded.
@Suite struct SharedTransactionFreeingTests {
    /// Returns a session that has locked a namespace's head.
    private func locking(_ url: PostgresURL, _ name: String) throws -> PostgresConnection {
        let session = try PostgresConnection(url.withApplicationName("psql"))
        try session.executeScript("begin; select 1 from pathmirror.namespace where name = '\(name)' for update")
        return session
    }

    /// One batch has nothing to send and waits until its answer is certain: the other namespaces are free meanwhile,
    /// and accept writes.
    @Test func aBatchThatCannotBeSentDelaysNoOther() throws {
        try withHeldEngine(committers: 2) { held, _, namespaces in
            let name = try #require(WriteName(writer: "writer-1", number: 1))
            let sum = Change(path: Path(splitting: "n"), value: .serverValue(ServerValue(.increment(.int(1)))))
            let named = Write(
                .update(base: .root, [sum]), operation: .update, hasServerValue: true, byteCount: 30, auth: .admin,
                name: name)
            // From the second time on the write is known to be committed.
            for _ in 0..<2 { #expect(namespaces[3].write(named)?.committedSeq == 2) }
            try held.hold()
            let writer = try locking(held.url, "n3")
            defer { writer.close() }
            let others = namespaces.filter { $0.name != "n3" }
            let late = submit(named, to: [namespaces[3]])
            let sinks = submit(.increment("n"), to: others)
            try held.evict()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2) }
            #expect(try held.waiting(for: writer))
            for namespace in others { #expect(namespace.write(.increment("n"))?.committedSeq == 3) }
            #expect(late[0].outcomes.isEmpty)
            try writer.executeScript("rollback")
            #expect(late[0].outcome(1)?.committedSeq == 2)
            #expect(held.engine.metrics.sharedTransactionRetries.current == 0)
            try checkCounts(held.url, others, counts: 3)
            try checkCounts(held.url, [namespaces[3]], counts: 2)
        }
    }

    /// Writes that follow a batch waiting for a lock wait with it, in order; the other namespaces continue.
    @Test func secondWritesWhileOneIsStuck() throws {
        try withHeldEngine(committers: 2) { held, _, namespaces in
            try held.hold()
            let writer = try locking(held.url, "n3")
            defer { writer.close() }
            let sinks = submit(.increment("n"), to: namespaces)
            try held.evict()
            for (number, sink) in sinks.enumerated() where number != 3 { #expect(sink.outcome(1)?.committedSeq == 2) }
            for (namespace, sink) in zip(namespaces, sinks) {
                for token in 2...3 as ClosedRange<UInt64> { namespace.submit(.increment("n"), to: sink, token: token) }
            }
            for (number, sink) in sinks.enumerated() where number != 3 {
                #expect(sink.outcome(2)?.committedSeq == 3 && sink.outcome(3)?.committedSeq == 4)
            }
            #expect(sinks[3].outcomes.isEmpty)
            try writer.executeScript("rollback")
            #expect(sinks[3].all(3)?.sorted { $0.key < $1.key }.map(\.value.committedSeq) == [2, 3, 4])
            for sink in sinks { #expect(sink.order == [1, 2, 3] && sink.repeated.isEmpty) }
            try checkCounts(held.url, namespaces, counts: 4)
        }
    }

    /// The operations of an ended session are the only write of their transaction.
    @Test func sessionsThatEndGoAlone() throws {
        try withHeldEngine { held, _, namespaces in
            let log = try LogConnection(held.url)
            defer { log.close() }
            let lease = try log.beginLease(Batch.makeID())
            let change = Change(path: Path(splitting: "n"), value: .int(2))
            let session = StoredSession(
                namespace: namespaces[2].id, namespaceName: "n2", id: "session", operations: [[change]], isAdmin: true,
                auth: .null, origin: nil)
            #expect(try log.saveSession(SessionSave(session, number: 1, isFirst: true), lease) == .saved)
            let claim = try #require(try log.session(namespaces[2].id, "session")?.claim)
            try held.hold()
            let others = namespaces.filter { $0.name != "n2" }
            let sinks = submit(.increment("n"), to: others)
            let ended = submit(
                Write(.disconnect(claim, operations: [[change]]), operation: .disconnect, byteCount: 8, auth: .admin),
                to: [namespaces[2]])
            try held.evict()
            for sink in sinks + ended { #expect(sink.outcome(1)?.committedSeq == 2) }
            let metrics = held.engine.metrics
            #expect(metrics.sharedTransactions.current == 1 && metrics.sharedTransactionNamespaces.current == 7)
            #expect(metrics.sharedTransactionRetries.current == 0)
            #expect(try log.session(namespaces[2].id, "session") == nil)
            try checkCounts(held.url, namespaces, counts: 2)
        }
    }

    /// The rows that a removal deletes count towards the limit, though it adds none.
    @Test func removalsOfManyRowsGoAlone() throws {
        try withHeldEngine {
            $0.sharedTransactionRows = 40
        } _: { held, _, namespaces in
            let wide = Node(children: (0..<60 as Range<Int64>).map { (Key("k\($0)"), Node.int($0)) })
            for namespace in namespaces[4...5] { _ = namespace.write(.set("wide", wide)) }
            try held.hold()
            let sinks = namespaces.map { namespace in
                submit(namespace.name == "n4" ? .set("wide", .null) : .set("n", .int(7)), to: [namespace])[0]
            }
            try held.evict()
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq != nil) }
            let metrics = held.engine.metrics
            #expect(metrics.sharedTransactions.current == 1 && metrics.sharedTransactionNamespaces.current == 7)
            try checkCounts(held.url, namespaces.filter { $0.name != "n4" }, counts: 7)
            try checkCounts(held.url, [namespaces[4]], counts: 1)
        }
    }

    /// Simulates a disk on which each commit takes longer than the lock timeout. After a lock timeout, only the
    /// namespace with that lock is excluded.
    @Test func onlyWhoseLockItWasStandsAside() throws {
        try withHeldEngine { held, _, namespaces in
            let administrator = try PostgresConnection(held.url)
            defer { administrator.close() }
            try administrator.executeScript(
                """
                create function slow() returns trigger language plpgsql as
                $$ begin perform pg_sleep(0.03); return null; end $$;
                create trigger slow after insert on pathmirror.log for each statement execute function slow()
                """)
            try held.hold()
            let writer = try locking(held.url, "n3")
            defer { writer.close() }
            let first = submit(.increment("n"), to: namespaces)
            try held.evict()
            // The engine has now determined which namespace was locked.
            #expect(first[2].outcome(1)?.committedSeq == 2)
            #expect(try held.waiting(for: writer))
            try writer.executeScript("rollback")
            for sink in first { #expect(sink.outcome(1)?.committedSeq == 2) }
            let metrics = held.engine.metrics
            #expect(metrics.sharedTransactionRetries.current == 1 && metrics.sharedTransactions.current == 0)
            try held.hold()
            let second = submit(.increment("n"), to: namespaces, token: 2)
            try held.evict()
            for sink in second { #expect(sink.outcome(2)?.committedSeq == 3) }
            // Half of the allowed number is still enough.
            #expect(metrics.sharedTransactions.current == 1 && metrics.sharedTransactionNamespaces.current == 7)
            try checkCounts(held.url, namespaces, counts: 3)
        }
    }

    /// A listener that takes a given time for each change.
    private final class SlowListener: ChangeListener {
        private let milliseconds: Milliseconds

        init(milliseconds: Milliseconds) { self.milliseconds = milliseconds }

        func changed(_ steps: [Step]) {
            let end = Clock.monotonicMilliseconds + milliseconds
            while Clock.monotonicMilliseconds < end {}
        }
        func reset(to snapshot: Snapshot) {}
        func rulesChanged(in snapshot: Snapshot) {}
        func ended() {}
    }

    /// Listeners are notified by the committer for which the other namespaces wait, too.
    @Test func whoseListenersTakeLongStandsAside() throws {
        try withHeldEngine {
            // Long enough that no other namespace counts as slow on a busy machine.
            $0.sharedTransactionEvaluationMicroseconds = 800_000
        } _: { held, _, namespaces in
            let listener = SlowListener(milliseconds: 450)
            _ = namespaces[5].subscribe(listener, at: .root)
            var together: [Int] = []
            for round in 1...3 as ClosedRange<UInt64> {
                let before = held.engine.metrics.sharedTransactionNamespaces.current
                try held.hold()
                let sinks = submit(.increment("n"), to: namespaces, token: round)
                try held.evict()
                for sink in sinks { #expect(sink.outcome(round)?.committedSeq == Int64(round) + 1) }
                together.append(held.engine.metrics.sharedTransactionNamespaces.current - before)
            }
            #expect(together == [8, 8, 7])
            namespaces[5].unsubscribe(listener, at: .root)
            try checkCounts(held.url, namespaces, counts: 4)
        }
    }
}
