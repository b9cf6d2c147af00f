import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Goal: what a new policy drops is known before it is set.
@Suite struct RetentionPreviewTests {
    /// A namespace with fifty entries, of which ten are in shared tables and the others in partitions of twenty.
    private static func withEntries(_ body: (LogConnection, Pruning) throws -> Void) throws {
        try withSession(sharingUpTo: 10) {
            $0.entriesPerPartition = 20
        } _: { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            for _ in 0..<50 {
                #expect(try connection.commit(writer.set("k/\(writer.head % 7)", .int(writer.head))) == .committed)
            }
            try body(connection, Pruning(connection, namespace))
        }
    }

    private static func keeping(_ count: Int64) -> RetentionPolicy { RetentionPolicy(keeping: .entries(count)) }

    @Test func countsEntriesAndPartitions() throws {
        try Self.withEntries { connection, pruning in
            let few = try #require(try pruning.preview(Self.keeping(45), after: nil))
            #expect(few.oldFrom == 1 && few.wantedFrom == 6 && few.head == 50 && few.entries == 5 && few.bytes == 0)
            let most = try #require(try pruning.preview(Self.keeping(5), after: nil))
            #expect(most.entries == 45 && most.bytes > 0 && most.waitsFor == nil)
            #expect(try pruning.preview(Self.keeping(50), after: nil) == nil)
            let size = RetentionPolicy(keeping: nil, maxBytes: 1)
            #expect(try pruning.preview(size, after: nil)?.entries ?? 0 > 0)
            // Nothing has gone.
            #expect(try connection.retentionPolicy(of: nil) == nil)
            #expect(
                try connection.sql.execute("select count(*) from pathmirror.log").int64(0, 0) == 50)
        }
    }

    @Test func comparesWithThePolicyInForce() throws {
        try Self.withEntries { connection, pruning in
            #expect(try pruning.preview(Self.keeping(20), after: Self.keeping(20)) == nil)
            #expect(try pruning.preview(Self.keeping(30), after: Self.keeping(20)) == nil)
            #expect(try pruning.preview(Self.keeping(20), after: Self.keeping(30))?.entries == 30)
            let namespace = try #require(try connection.namespace(named: "test"))
            try connection.setRetention(Self.keeping(20), of: nil)
            #expect(try connection.namespacesWithOwnRetention() == [])
            try connection.setRetention(Self.keeping(20), of: namespace.id)
            #expect(try connection.namespacesWithOwnRetention() == [namespace.id])
        }
    }
}
