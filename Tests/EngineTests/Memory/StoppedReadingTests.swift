import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks that a gateway that stops does not wait until large trees have been read.
@Suite struct StoppedReadingTests {
    private static let records = 100_000
    /// The amount to read before the stop: less than half of the records.
    private static let someBytes = 8 << 20

    @Test func aLoadEnds() throws {
        try withDatabase { url in
            try PagedNamespaceTests.insertRecords(Self.records, url)
            let budget = TreeBudget(bytes: 1 << 30)
            let engine = try TestEngine(url, budget: budget)
            engine.engine.withNamespace("test") { _ in }
            #expect(eventually { budget.total.bytes > Self.someBytes })
            engine.stop()
            #expect(engine.metrics.loads.current == 0)
        }
    }

    /// The log lacks the entries that the gateway has missed, so the gateway reads the tree again.
    @Test func aReloadEnds() throws {
        try withDatabase { url in
            try PagedNamespaceTests.insertRecords(Self.records, url)
            let budget = TreeBudget(bytes: 1 << 30)
            let engine = try TestEngine(url, budget: budget)
            let namespace = try engine.namespace()
            #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 1)
            let before = budget.total.bytes
            let connection = try LogConnection(url)
            defer { connection.close() }
            try connection.sql.executeScript(
                "delete from pathmirror.log; update pathmirror.namespace set head = 5, retained_from = 6, last_batch = null"
            )
            namespace.suspect()
            #expect(eventually { budget.total.bytes > before + Self.someBytes })
            engine.engine.stop(milliseconds: 0)
            #expect(namespace.snapshot.seq == 1)
        }
    }
}
