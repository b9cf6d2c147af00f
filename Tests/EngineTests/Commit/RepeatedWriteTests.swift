import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks writes that are repeated by their names, on any gateway and together with other writes.
@Suite struct RepeatedWriteTests {
    private func counting(_ number: Int64, _ writer: String = "writer-1", rows: Int = 0) throws -> Write {
        let name = try #require(WriteName(writer: writer, number: number))
        let sum = Change(
            path: Path(splitting: "sum"), value: .serverValue(Tree.ServerValue(.increment(.int(1)))))
        let wide = (0..<rows).map { Change(path: Path(splitting: "wide/k\($0)"), value: .int(number)) }
        return Write(
            .update(base: .root, [sum] + wide), operation: .update, hasServerValue: true, byteCount: 30, auth: .admin,
            name: name)
    }

    private func sum(_ namespace: LiveNamespace) -> Node { namespace.snapshot.root.child(Key("sum")) }

    @Test func aWriteIsDoneOnceOnAnyGateway() throws {
        try withEngines(2) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            #expect(namespaces[0].write(try counting(1))?.committedSeq == 1)
            for _ in 0..<3 {
                for namespace in namespaces { #expect(namespace.write(try counting(1))?.committedSeq == 1) }
            }
            #expect(namespaces[1].write(try counting(2))?.committedSeq == 2)
            // The answer names the writer's last entry, which is in the snapshot by then.
            #expect(namespaces[0].write(try counting(1))?.committedSeq == 1)
            #expect(namespaces[0].write(try counting(2))?.committedSeq == 2)
            #expect(namespaces.map { sum($0) } == [.int(2), .int(2)])
            #expect(engines.map { $0.metrics.repeatedWrites.current } == [5, 3])
            #expect(try verify(url).isClean)
        }
    }

    /// Other writes in the same batch as a repeated write are executed.
    @Test func aRepeatedWriteBlocksNoWriter() throws {
        try withEngines(2) { url, engines in
            let (here, there) = (try engines[0].namespace(), try engines[1].namespace())
            #expect(there.write(try counting(1))?.committedSeq == 1)
            let sink = CollectingSink()
            for token in 0..<200 as Range<UInt64> {
                let write: Write = token % 3 == 0 ? try counting(1) : .set("k/\(token)", .int(1))
                here.submit(write, to: sink, token: token)
            }
            let outcomes = try #require(sink.all(200))
            #expect(outcomes.values.allSatisfy { $0.committedSeq != nil })
            #expect(sink.order == Array(0..<200))
            #expect(here.snapshot.root.child(Key("k")).rowCount == 133)
            #expect(sum(here) == .int(1))
            try StoredState(url).check(equals: [here])
        }
    }

    /// A batch contains the same write twice: from a connection that was thought lost, and from its successor.
    @Test func twiceInOneBatch() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            for token in 0..<100 as Range<UInt64> {
                namespace.submit(try counting(Int64(token / 2) + 1), to: sink, token: token)
            }
            #expect(try #require(sink.all(100)).values.allSatisfy { $0.committedSeq != nil })
            #expect(sum(namespace) == .int(50))
        }
    }

    /// A late copy of the second write arrives before the second copy of the first: all of them are answered as
    /// committed.
    @Test func aLateCopyBeforeAnEarlierOne() throws {
        try withEngines(2) { url, engines in
            let (here, there) = (try engines[0].namespace(), try engines[1].namespace())
            #expect(there.write(try counting(1))?.committedSeq == 1)
            let sink = CollectingSink()
            // The first writes delay the batch, so that the others are batched together.
            for token in 0..<60 as Range<UInt64> {
                let write: Write =
                    token < 30 ? .set("k/\(token)", .int(1)) : try counting([2, 1, 2][Int(token) % 3])
                here.submit(write, to: sink, token: token)
            }
            #expect(try #require(sink.all(60)).values.allSatisfy { $0.committedSeq != nil })
            #expect(sum(here) == .int(2))
        }
    }

    /// Two gateways receive the same writes at once, repeatedly.
    @Test func bothGatewaysAtOnce() throws {
        try withEngines(2) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            let sinks = [CollectingSink(), CollectingSink()]
            for number in 0..<300 as Range<UInt64> {
                for (namespace, sink) in zip(namespaces, sinks) {
                    let writer = "writer-\(number % 7)"
                    namespace.submit(try counting(Int64(number) + 1, writer), to: sink, token: number)
                }
            }
            for sink in sinks {
                #expect(try #require(sink.all(300)).values.allSatisfy { $0.committedSeq != nil })
            }
            #expect(namespaces[0].waitFor(300))
            #expect(sum(namespaces[0]) == .int(300))
            #expect(try StoredState(url).head == 300)
            #expect(try verify(url).isClean)
        }
    }

    /// A write that was refused is judged again, unless later writes of its client are committed: those stand.
    @Test func aRefusedWriteIsNotDone() throws {
        try withEngines(2) { _, engines in
            let namespaces = try engines.map { try $0.namespace() }
            let namespace = namespaces[0]
            func priority(_ number: Int64) -> Write {
                Write(
                    .set(Path(splitting: "a/.priority"), .int(number)), operation: .set, byteCount: 1, auth: .admin,
                    name: WriteName(writer: "writer-1", number: number))
            }
            func isRefused(_ outcome: WriteOutcome?) -> Bool { if case .refused? = outcome { true } else { false } }
            #expect(isRefused(namespace.write(priority(1))))
            #expect(namespace.write(.set("a", .int(1)))?.committedSeq == 1)
            #expect(namespace.write(priority(1))?.committedSeq == 2)
            #expect(namespace.write(.set("a", .null))?.committedSeq == 3)
            #expect(isRefused(namespace.write(priority(2))))
            #expect(namespace.write(try counting(3))?.committedSeq == 4)
            #expect(namespace.write(.set("a", .int(2)))?.committedSeq == 5)
            for namespace in namespaces { #expect(isRefused(namespace.write(priority(2)))) }
            for namespace in namespaces { #expect(namespace.write(priority(1))?.committedSeq == 4) }
            #expect(namespace.snapshot.seq == 5)
        }
    }

    /// A committed write that would be refused by now is not reported as refused: with other writes and alone, on the
    /// same gateway and on another.
    @Test func whatWouldBeRefusedByNowWasDone() throws {
        try withEngines(2) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            let priority = Write(
                .set(Path(splitting: "a/.priority"), .int(1)), operation: .set, byteCount: 1, auth: .admin,
                name: WriteName("writer-1.1"))
            #expect(namespaces[0].write(.set("a", .int(1)))?.committedSeq == 1)
            #expect(namespaces[0].write(priority)?.committedSeq == 2)
            #expect(namespaces[0].write(.set("a", .null))?.committedSeq == 3)
            for namespace in namespaces {
                #expect(namespace.write(priority)?.committedSeq == 2)
                let sink = CollectingSink()
                for token in 0..<50 as Range<UInt64> {
                    namespace.submit(token == 25 ? priority : .set("b/\(token)", .int(1)), to: sink, token: token)
                }
                #expect(try #require(sink.all(50)).values.allSatisfy { $0.committedSeq != nil })
            }
            // A write that was never committed is still refused.
            let other = Write(
                .set(Path(splitting: "a/.priority"), .int(1)), operation: .set, byteCount: 1, auth: .admin,
                name: WriteName("writer-1.2"))
            guard case .refused? = namespaces[0].write(other) else { return #expect(Bool(false), "it was done") }
        }
    }

    /// A large write is prepared on its own thread, and repeated by the other gateway.
    @Test func largeWritesToo() throws {
        try withEngines(2) { settings, _ in
            settings.largeWriteRows = 100
        } _: { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            #expect(namespaces[0].write(try counting(1, rows: 300).overtakable)?.committedSeq == 1)
            #expect(engines[0].metrics.largeWrites.current == 1)
            for namespace in namespaces {
                #expect(namespace.write(try counting(1, rows: 300).overtakable)?.committedSeq == 1)
                #expect(namespace.write(try counting(1))?.committedSeq == 1)
            }
            let sinks = [CollectingSink(), CollectingSink()]
            for (namespace, sink) in zip(namespaces, sinks) {
                namespace.submit(try counting(2, rows: 400).overtakable, to: sink, token: 0)
            }
            for sink in sinks { #expect(sink.outcome(0)?.committedSeq == 2) }
            #expect(namespaces[1].waitFor(2))
            #expect(sum(namespaces[1]) == .int(2))
            #expect(try verify(url).isClean)
        }
    }

    /// An older database is restored under the gateway: writes that it lacks do not count as committed.
    @Test func whatWasLostIsNotDone() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            #expect(namespace.write(try counting(1))?.committedSeq == 1)
            #expect(namespace.write(try counting(1))?.committedSeq == 1)
            namespace.reset(to: namespace.snapshot)
            #expect(namespace.doneWrites.isEmpty)
        }
    }
}
