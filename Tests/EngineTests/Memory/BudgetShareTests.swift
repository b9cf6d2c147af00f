import LogStore
import Postgres
import Rules
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks past trees within the budget for trees: of a snapshot, of entries, and of imports.
@Suite struct BudgetShareTests {
    private static let budget = 2 << 20

    /// Makes a namespace of 60,000 rows with a snapshot, later entries, an import of the same size, and more entries.
    private func makeHistory(_ url: PostgresURL) throws -> [(seq: Int64, root: Node)] {
        try PagedNamespaceTests.insertRecords(20_000, url)
        // This engine has a budget of its own.
        let engine = try TestEngine(url)
        defer { engine.stop() }
        let namespace = try engine.namespace()
        let connection = try LogConnection(url)
        defer { connection.close() }
        func write(_ count: Int, _ random: inout SeededGenerator) throws {
            for number in 0..<count {
                let path = Path(PagedNamespaceTests.record(random.below(20_000)).keys + [Key("number")])
                let write = Write(.set(path, .int(Int64(number))), operation: .set, byteCount: 8, auth: .admin)
                #expect(namespace.write(write)?.committedSeq != nil)
            }
        }
        var random = SeededGenerator(seed: 3)
        var moments: [(seq: Int64, root: Node)] = []
        try write(20, &random)
        #expect(try connection.takeSnapshot(namespace.id) == 20)
        try write(400, &random)
        moments.append((namespace.snapshot.seq, namespace.snapshot.root))
        let record = try #require(try connection.namespace(id: namespace.id))
        let importer = try Importer(connection, record, at: Path(splitting: "imported"))
        for number in 0..<20_000 {
            let path = "/imported/r\(100_000 + number)"
            try importer.add(Array("\(path)/name".utf8), .string("an imported record, number \(number)"))
            try importer.add(Array("\(path)/number".utf8), .int(Int64(number)))
        }
        try importer.finish()
        #expect(namespace.waitFor(421))
        moments.append((namespace.snapshot.seq, namespace.snapshot.root))
        try write(50, &random)
        moments.append((namespace.snapshot.seq, namespace.snapshot.root))
        return moments
    }

    @Test func treesOfThePastStayWithinTheBudget() throws {
        try withPages(bytes: Self.budget) { url, budget, makeEngine in
            let moments = try makeHistory(url)
            // An engine's thread counts the pages in memory now and then.
            _ = try makeEngine(url)
            let connection = try LogConnection(url)
            defer { connection.close() }
            let record = try #require(try connection.namespace(named: "test"))
            var used: [Int64] = []
            for moment in moments {
                var past = try PastTree(connection, record, for: moment.seq, in: budget.room { true })
                past.pageLimit = 100
                try past.advance(to: moment.seq)
                #expect(past.startSeq == 20)
                #expect(eventually { budget.total.bytes <= Self.budget * 5 / 4 }, "\(budget.total.bytes)")
                #expect(past.root.heapBytes <= Self.budget)
                #expect(past.root == moment.root && moment.root == past.root)
                used.append(Int64(try #require(budget.pages).facts.bytesInFile))
            }
            #expect(used.allSatisfy { $0 > 1 << 19 })
            // All of it is released with the tree.
            #expect(eventually { budget.total.bytes < Self.budget / 8 && budget.pages?.facts.bytesInFile == 0 })
        }
    }

    /// Without space on the disk, the same tree is built in memory.
    @Test func withoutPagesTheTreeIsTheSame() throws {
        try withPages(bytes: Self.budget, fileBytes: 200_000) { url, budget, makeEngine in
            let moments = try makeHistory(url)
            _ = try makeEngine(url)
            let connection = try LogConnection(url)
            defer { connection.close() }
            let record = try #require(try connection.namespace(named: "test"))
            for continues in [true, false] {
                let last = try #require(moments.last)
                var past = try PastTree(connection, record, for: last.seq, in: budget.room { continues })
                try past.advance(to: last.seq)
                #expect(past.root == last.root)
                #expect(budget.total.bytes > Self.budget)
            }
            #expect(eventually { budget.total.bytes < Self.budget / 8 })
        }
    }
}
