import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Checks that followers read the same entries even if the log has so many partitions that its functions plan each
/// call again.
@Suite struct ManyPartitionsTests {
    @Test func readingBesideManyPartitions() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            for value in 0..<9 as Range<Int64> { _ = try connection.commit(writer.set("a", .int(value))) }
            let before = try Self.answers(connection, writer.namespace)
            #expect(before.pages == [[4, 5, 6, 7, 8], [9], []])
            #expect(before.batch != nil)
            #expect(before.isOfMany == false)
            try connection.sql.executeScript(
                """
                do $$
                begin
                    for number in 1 .. 301 loop
                        execute format(
                            'create table pathmirror.spare_%s partition of pathmirror.log_rest for values from (%s, 65536) to (%s, 1000000)',
                            number, 1000000 + number, 1000000 + number);
                    end loop;
                end
                $$
                """)
            let after = try Self.answers(connection, writer.namespace)
            #expect(after.isOfMany)
            #expect(after.pages == before.pages)
            #expect(after.batch == before.batch)
            // The setting for a call ends with the call.
            #expect(try connection.sql.execute("show plan_cache_mode").string(0, 0) == "auto")
        }
    }

    private static func answers(
        _ connection: LogConnection, _ namespace: Int64
    ) throws -> (pages: [[Int64]], batch: [UInt8]?, isOfMany: Bool) {
        let pages = try [3, 8, 9].map { (after: Int64) in
            try connection.read(namespace, after: after, limit: 5).map(\.entry.seq)
        }
        return (
            pages, try connection.history(namespace, at: 5)?.batch,
            try connection.sql.execute("select pathmirror.has_many_partitions()").bool(0, 0)
        )
    }
}
