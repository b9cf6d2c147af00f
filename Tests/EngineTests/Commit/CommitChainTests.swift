import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks batches that are sent before the preceding batch is committed.
@Suite struct CommitChainTests {
    @Test func theNextBatchIsSentWhileTheFirstOneWaits() throws {
        try withChainedBatches { batches in
            try batches.begin()
            batches.follow()
            batches.waitUntilLagging()
            #expect(batches.sink.outcomes.isEmpty)
            #expect(batches.namespace.snapshot.seq == batches.before)
            try batches.holder.executeScript("rollback")
            try batches.checkAll()
            #expect(batches.engine.metrics.conflicts.current == 0)
        }
    }

    @Test func soManyAreInFlightAndNoMore() throws {
        try withChainedBatches {
            $0.batchesInFlight = 4
        } _: { batches in
            try batches.begin()
            // The size of each batch depends on the speed of the committer.
            #expect(
                eventually {
                    batches.follow(10)
                    return batches.engine.metrics.pipelinedBatches.current == 3
                })
            batches.follow(100)
            try batches.holder.executeScript("rollback")
            try batches.checkAll()
        }
    }

    @Test func eachWaitsForTheOneBeforeWhereThatIsSaid() throws {
        try withChainedBatches {
            $0.batchesInFlight = 1
        } _: { batches in
            try batches.begin()
            batches.follow(200)
            try batches.holder.executeScript("rollback")
            try batches.checkAll()
            #expect(batches.engine.metrics.pipelinedBatches.current == 0)
        }
    }

    /// The holder of the lock writes: the first batch is refused, and the batches sent after it are void.
    @Test func theHeadMoves() throws {
        try withChainedBatches { batches in
            try batches.begin()
            batches.follow()
            batches.waitUntilLagging()
            try batches.holder.executeScript("select pathmirror.set('test', '/other', '1'); commit")
            try batches.checkAll(others: 1)
            #expect(batches.engine.metrics.conflicts.current >= 1)
            // After a conflict no batch is sent ahead for a while.
            #expect(batches.engine.metrics.pipelinedBatches.current == 1)
        }
    }

    /// Writes that depend on the first batch are decided on its final result, including retries.
    @Test func laterWritesAreDecidedOnEarlierOnes() throws {
        try withChainedBatches { batches in
            try batches.begin(.set("lock", .string("a")))
            let sink = CollectingSink()
            batches.namespace.submit(.set("lock", .string("b"), expecting: Node.string("a").hash), to: sink, token: 1)
            batches.namespace.submit(.set("lock", .string("c"), expecting: Node.string("a").hash), to: sink, token: 2)
            for token in 3..<40 as Range<UInt64> { batches.namespace.submit(.increment("m"), to: sink, token: token) }
            batches.waitUntilLagging()
            try batches.holder.executeScript("rollback")
            #expect(sink.all(39) != nil)
            #expect(sink.outcomes[1]?.committedSeq == batches.before + 2)
            guard case .preconditionFailed(_, .string("b")) = sink.outcomes[2] else {
                Issue.record("\(String(describing: sink.outcomes[2]))")
                return
            }
            try StoredState(batches.url).check(equals: [batches.namespace])
        }
    }

    /// A refusal is reported only after the batch on which it was judged is committed.
    @Test(arguments: [false, true])
    func refusalsWaitForWhatTheyWereJudgedOn(isMoved: Bool) throws {
        try withChainedBatches { batches in
            try batches.begin(.set("lock", .string("a")))
            batches.follow(30, .set("lock", .string("b"), expecting: Node.null.hash))
            // The writes have been judged when the queue is empty.
            #expect(eventually { batches.namespace.waitingWrites < 30 })
            #expect(batches.engine.metrics.pipelinedBatches.current == 0 && batches.sink.outcomes.isEmpty)
            // Without the first batch the first of these writes would have succeeded.
            try batches.holder.executeScript(
                isMoved ? "select pathmirror.set('test', '/lock', '\"x\"'); commit" : "rollback")
            let outcomes = try #require(batches.sink.all(31))
            for token in batches.after {
                guard case .preconditionFailed(_, .string("a")) = outcomes[token] else {
                    Issue.record("\(String(describing: outcomes[token]))")
                    return
                }
            }
            #expect(outcomes[0]?.committedSeq == batches.before + (isMoved ? 2 : 1))
            try StoredState(batches.url).check(equals: [batches.namespace])
        }
    }

    /// A write is repeated while its first copy is in flight: the database finds it by its name, not the gateway's
    /// memory.
    @Test func aNamedWriteIsRepeatedAfterItself() throws {
        try withChainedBatches { batches in
            let name = try #require(WriteName(writer: "writer-1", number: 1))
            let change = Change(path: Path(splitting: "n"), value: .serverValue(Tree.ServerValue(.increment(.int(1)))))
            let write = Write(
                .update(base: .root, [change]), operation: .update, hasServerValue: true, byteCount: 30, auth: .admin,
                name: name)
            try batches.begin(write)
            batches.namespace.submit(write, to: batches.sink, token: 1_000)
            batches.follow(30)
            batches.waitUntilLagging()
            try batches.holder.executeScript("rollback")
            #expect(batches.sink.outcome(1_000)?.committedSeq == batches.before + 1)
            let outcomes = try #require(batches.sink.all(32))
            #expect(outcomes.values.allSatisfy { $0.committedSeq != nil } && batches.sink.repeated.isEmpty)
            try batches.checkStored(n: batches.before + 31)
        }
    }

    /// Rules set in one batch apply to the next batch, before any listener is notified of them.
    @Test func rulesHoldInTheNextBatch() throws {
        try withChainedBatches { batches in
            let rules = try RuleSet(json: Array(#"{"rules": {".read": true, "open": {".write": true}}}"#.utf8))
            try batches.begin(Write(.rules(rules), operation: .rules, byteCount: 50, auth: .admin))
            let sink = CollectingSink()
            let anonymous = AuthContext.unauthenticated
            for token in 1...40 as ClosedRange<UInt64> {
                let path = token % 2 == 0 ? "open/k\(token)" : "closed/k\(token)"
                let write = Write(.set(Path(splitting: path), .int(1)), operation: .set, byteCount: 1, auth: anonymous)
                batches.namespace.submit(write, to: sink, token: token)
            }
            batches.waitUntilLagging()
            try batches.holder.executeScript("rollback")
            let outcomes = try #require(sink.all(40))
            for (token, outcome) in outcomes { #expect((outcome.committedSeq != nil) == (token % 2 == 0)) }
            try StoredState(batches.url).check(equals: [batches.namespace])
        }
    }

    /// A batch that no database accepts fails, both first in a chain and after another batch, and no writer waits
    /// forever.
    @Test(arguments: [true, false])
    func aBatchThatCannotBeSent(isFirst: Bool) throws {
        try withChainedBatches { batches in
            let zero = Origin(json: Array("\"a\u{0}\"".utf8))
            let bad = Write(
                .set(Path(splitting: "bad"), .int(1)), operation: .set, byteCount: 1, auth: .admin, origin: zero)
            if isFirst {
                #expect(batches.namespace.write(bad)?.failure != nil)
            } else {
                try batches.begin()
                batches.follow(30, bad)
                #expect(eventually { batches.namespace.waitingWrites < 30 })
                try batches.holder.executeScript("rollback")
                let outcomes = try #require(batches.sink.all(31))
                #expect(outcomes[0]?.committedSeq == batches.before + 1)
                #expect(batches.after.allSatisfy { outcomes[$0]?.failure != nil } && batches.sink.repeated.isEmpty)
            }
            #expect(batches.namespace.write(.increment("n"))?.committedSeq != nil)
            try StoredState(batches.url).check(equals: [batches.namespace])
        }
    }

    /// The namespace ends while writes are about to be queued again: no thread takes them from the queue.
    @Test func theNamespaceEnds() throws {
        try withChainedBatches { batches in
            try batches.begin()
            batches.follow()
            batches.waitUntilLagging()
            let administrator = try PostgresConnection(batches.url)
            defer { administrator.close() }
            try batches.holder.executeScript(
                "delete from pathmirror.node; delete from pathmirror.log; delete from pathmirror.namespace; commit")
            let outcomes = try #require(batches.sink.all(31))
            #expect(outcomes.values.allSatisfy { $0.failure != nil } && batches.sink.repeated.isEmpty)
        }
    }

    /// A write with more rows than one round trip accepts waits until the first batch is answered, as do the writes
    /// after it for a while.
    @Test func batchesByCopyAreNotPipelined() throws {
        try withChainedBatches { batches in
            try batches.begin()
            let wide = Node(children: (0..<200).map { (Key("k\($0)"), .int(1)) })
            for number in 0..<30 { batches.follow(1, .set("wide/\(number)", wide)) }
            #expect(eventually { batches.namespace.waitingWrites < 30 })
            try batches.holder.executeScript("rollback")
            let outcomes = try #require(batches.sink.all(31))
            #expect(outcomes.values.allSatisfy { $0.committedSeq != nil })
            #expect(batches.sink.order == Array(0...30))
            #expect(batches.engine.metrics.pipelinedBatches.current == 0)
            try StoredState(batches.url).check(equals: [batches.namespace])
        }
    }

    /// Writes that wait in another namespace get a turn: no further batch is sent after the one in flight.
    @Test func othersHaveTheirTurn() throws {
        try withChainedBatches {
            $0.committers = 1
        } _: { batches in
            try batches.begin()
            let other = CollectingSink()
            // The loader has a thread of its own, and the only committer waits.
            try batches.engine.namespace("other").submit(.increment("n"), to: other, token: 1)
            batches.follow(100)
            try batches.holder.executeScript("rollback")
            #expect(other.outcome(1)?.committedSeq == 1)
            try batches.checkAll()
        }
    }

    /// Batches in flight when the engine stops are awaited and answered.
    @Test func stoppingWhileTwoAreInFlight() throws {
        try withChainedBatches { batches in
            try batches.begin()
            batches.follow()
            batches.waitUntilLagging()
            let engine = batches.engine.engine
            let stopper = Thread(name: "stopper") { engine.stop(milliseconds: 20_000) }
            let late = CollectingSink()
            var tries: UInt64 = 0
            #expect(
                eventually {
                    tries += 1
                    batches.namespace.submit(.set("late", .null), to: late, token: tries)
                    return late.outcomes[tries]?.failure == .stopping
                })
            try batches.holder.executeScript("rollback")
            stopper.join()
            #expect(batches.sink.outcomes.count == 31 && batches.sink.repeated.isEmpty)
            for token in 0..<batches.after.upperBound { #expect(batches.sink.outcomes[token]?.committedSeq != nil) }
            try StoredState(batches.url).check()
        }
    }
}
