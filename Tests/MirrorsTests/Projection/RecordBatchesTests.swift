import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of records that are read on a separate thread.
@Suite struct RecordBatchesTests {
    private struct Enough: Error, Equatable {}

    /// Runs `body` with a session on a namespace with these records, in a transaction.
    private func with(_ json: String, _ body: (LogConnection, Int64, PathPattern) throws -> Void) throws {
        try MirrorBench.with { bench in
            try bench.set("/", json)
            let source = try LogConnection(bench.url)
            defer { source.close() }
            let pattern = try PathPattern("/r/{id}")
            let namespace = bench.namespace.key.id
            _ = try #require(try source.beginSnapshot(namespace))
            defer { source.endSnapshot() }
            try body(source, namespace, pattern)
        }
    }

    private static func records(_ count: Int, _ value: String = "7") -> String {
        "{\"r\":{" + (0..<count).map { "\"k\(1_000 + $0)\":{\"n\":\($0),\"v\":\(value)}" }.joined(separator: ",") + "}}"
    }

    @Test(arguments: [0, 1, 99, 100, 101, 1_000]) func allComeInOrder(count: Int) throws {
        try with(count == 0 ? "{\"x\":1}" : Self.records(count)) { source, namespace, pattern in
            var found: [String] = []
            var sizes: [Int] = []
            try RecordBatches.forEach(namespace, pattern, source, most: 100) { batch in
                sizes.append(batch.count)
                for record in batch {
                    found.append(record.keys.map(\.text).joined())
                    #expect(record.value.child(Key("n")) == .int(Int64(found.count - 1)))
                    #expect(record.version == 1)
                }
            }
            #expect(found == (0..<count).map { "k\(1_000 + $0)" })
            #expect(sizes.allSatisfy { (1...100).contains($0) })
            #expect(sizes.count == (count + 99) / 100)
        }
    }

    /// Checks that a batch is limited by bytes, however many records it may contain.
    @Test func largeRecordsComeInSmallBatches() throws {
        let value = "\"" + String(repeating: "x", count: 200_000) + "\""
        try with(Self.records(40, value)) { source, namespace, pattern in
            var sizes: [Int] = []
            try RecordBatches.forEach(namespace, pattern, source, most: 5_000) { sizes.append($0.count) }
            #expect(sizes.reduce(0, +) == 40)
            #expect(sizes.allSatisfy { $0 <= 6 })
        }
    }

    /// Checks that a consumer can stop the reader and use the connection immediately, outside a transaction.
    @Test(arguments: [0, 3]) func readersStop(after batches: Int) throws {
        try with(Self.records(5_000)) { source, namespace, pattern in
            var count = 0
            #expect(throws: Enough.self) {
                try RecordBatches.forEach(namespace, pattern, source, most: 10) { _ in
                    guard count < batches else { throw Enough() }
                    count += 1
                }
            }
            #expect(count == batches)
            source.endSnapshot()
            let head = try source.namespace(id: namespace)?.head
            #expect(head == 1)
        }
    }

    /// Checks that a failure of the reader is reported after the records that were read.
    @Test func failuresAreReported() throws {
        try MirrorBench.with { bench in
            try bench.set("/", Self.records(3_000))
            let source = try LogConnection(bench.url)
            defer { source.close() }
            _ = try #require(try source.beginSnapshot(bench.namespace.key.id))
            // Sessions of other tests use the same server.
            try bench.script(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid = \(source.backendPID)")
            let pattern = try PathPattern("/r/{id}")
            #expect(throws: (any Error).self) {
                try RecordBatches.forEach(bench.namespace.key.id, pattern, source, most: 10) { _ in }
            }
        }
    }
}
