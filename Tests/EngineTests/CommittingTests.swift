import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks how one engine handles writes.
@Suite struct CommittingTests {
    @Test func committedWriteIsStoredAndPublishedBeforeItIsAnswered() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            for seq in 1...5 as ClosedRange<Int64> {
                let outcome = try #require(namespace.write(.set("a/\(seq)", .int(seq))))
                #expect(outcome.committedSeq == seq)
                #expect(namespace.snapshot.seq == seq)
                #expect(namespace.snapshot.root[Path(splitting: "a/\(seq)")] == .int(seq))
                let stored = try StoredState(url)
                #expect(stored.head == seq)
                stored.check(equals: [namespace])
            }
        }
    }

    /// Writes that arrive while a batch is in flight are batched together: there are far fewer transactions than
    /// writes.
    @Test func waitingWritesShareATransaction() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            for token in 0..<2_000 as Range<UInt64> {
                namespace.submit(.set("k/\(token)", .int(1)), to: sink, token: token)
            }
            let outcomes = try #require(sink.all(2_000))
            #expect(outcomes.values.allSatisfy { $0.committedSeq != nil })
            #expect(engines[0].metrics.batches.current < 500)
            #expect(engines[0].metrics.writes.current == 2_000)
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func writesOfOneThreadAreCommittedAndAnsweredInOrder() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            for token in 0..<500 as Range<UInt64> {
                namespace.submit(.set("x", .int(Int64(token))), to: sink, token: token)
            }
            let outcomes = try #require(sink.all(500))
            #expect(sink.order == Array(0..<500))
            #expect((0..<500).allSatisfy { outcomes[$0]?.committedSeq == Int64($0) + 1 })
            #expect(namespace.snapshot.root[Path(splitting: "x")] == .int(499))
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func batchesKeepTheirBounds() throws {
        try withEngines(1) { settings, _ in
            settings.maxBatchWrites = 7
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            for token in 0..<100 as Range<UInt64> {
                namespace.submit(.set("k/\(token)", .int(1)), to: sink, token: token)
            }
            _ = try #require(sink.all(100))
            #expect(engines[0].metrics.batches.current >= 100 / 7)
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func preconditions() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            #expect(namespace.write(.set("x", .int(1), expecting: ""))?.committedSeq == 1)
            guard case .preconditionFailed(let seq, let current) = namespace.write(.set("x", .int(2), expecting: ""))
            else {
                return #expect(Bool(false), "a value that is there is not nothing")
            }
            #expect(seq == 1)
            #expect(current == .int(1))
            #expect(namespace.write(.set("x", .int(2), expecting: Node.int(1).hash))?.committedSeq == 2)
            #expect(namespace.write(.set("x", .null, expecting: Node.int(2).hash))?.committedSeq == 3)
            #expect(engines[0].metrics.failedPreconditions.current == 1)
            try StoredState(url).check(equals: [namespace])
        }
    }

    /// A compare-and-set sees the writes before it in its own batch.
    @Test func preconditionsWithinABatch() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            // One long chain: each write expects the value of the one before.
            for token in 0..<300 as Range<UInt64> {
                let expected = token == 0 ? "" : Node.int(Int64(token) - 1).hash
                namespace.submit(.set("x", .int(Int64(token)), expecting: expected), to: sink, token: token)
            }
            let outcomes = try #require(sink.all(300))
            #expect(outcomes.values.allSatisfy { $0.committedSeq != nil })
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func neighboursOfAFailingWriteCommit() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            for token in 0..<300 as Range<UInt64> {
                switch token % 3 {
                case 0: namespace.submit(.set("k/\(token)", .int(1)), to: sink, token: token)
                case 1: namespace.submit(.set("k/\(token)", .int(1), expecting: "no such hash"), to: sink, token: token)
                default:
                    // A priority of a node that doesn't exist.
                    namespace.submit(.set("none/\(token)/.priority", .int(1)), to: sink, token: token)
                }
            }
            let outcomes = try #require(sink.all(300))
            for (token, outcome) in outcomes {
                switch (token % 3, outcome) {
                case (0, .committed), (1, .preconditionFailed), (2, .refused): break
                default: Issue.record("write \(token) ended in \(outcome)")
                }
            }
            #expect(namespace.snapshot.seq == 100)
            #expect(namespace.snapshot.root[Path(splitting: "k")].childCount == 100)
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func serverValuesAreResolvedInOrderAndLogged() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            for token in 0..<200 as Range<UInt64> { namespace.submit(.increment("n", by: 3), to: sink, token: token) }
            let outcomes = try #require(sink.all(200))
            #expect(namespace.snapshot.root[Path(splitting: "n")] == .int(600))
            for (token, outcome) in outcomes {
                guard case .committed(_, let changes) = outcome else {
                    Issue.record("increment \(token) ended in \(outcome)")
                    continue
                }
                #expect(changes.map(\.value) == [.int(3 * Int64(token + 1))])
            }
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func updatesAreOneEntry() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            _ = namespace.write(.set("gone", .bool(true)))
            let update = Write.update("", [("a/b", .int(1)), ("c", .string("two")), ("gone", .null)])
            #expect(namespace.write(update)?.committedSeq == 2)
            let stored = try StoredState(url)
            #expect(stored.entries.last?.changes.count == 3)
            #expect(stored.entries.last?.operation == .update)
            stored.check(equals: [namespace])
        }
    }

    /// Rows written by COPY (above the threshold), with updates and removals among them, give the same tree.
    @Test func largeWrites() throws {
        try withEngines(1) { _, connection in
            connection.copyThreshold = 50
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            for round in 0..<3 as Range<Int64> {
                let children = (0..<400 as Range<Int64>).filter { ($0 + round) % 3 != 0 }.map {
                    (Key("k\($0)"), Node.int($0 * round))
                }
                #expect(namespace.write(.set("wide", Node(children: children)))?.committedSeq == round + 1)
                try StoredState(url).check(equals: [namespace])
            }
            #expect(try verify(url).isClean)
        }
    }

    @Test func namespacesAreIndependent() throws {
        try withEngines { url, engines in
            let first = try engines[0].namespace("one")
            let second = try engines[0].namespace("two")
            #expect(first.write(.set("x", .int(1)))?.committedSeq == 1)
            #expect(second.write(.set("x", .int(2)))?.committedSeq == 1)
            try StoredState(url, "one").check(equals: [first])
            try StoredState(url, "two").check(equals: [second])
            #expect(second.snapshot.root[Path(splitting: "x")] == .int(2))
        }
    }

    @Test func unknownNamespaces() throws {
        try withEngines(1) { settings, _ in
            settings.createsNamespaces = false
        } _: { _, engines in
            guard case .failure(.unknownNamespace("nobody")) = engines[0].load("nobody") else {
                return #expect(Bool(false), "a namespace that was never made can't be loaded")
            }
        }
    }
}
