import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of loading a tree that turns out to be larger than its reader accepts.
@Suite struct LoadTreeTests {
    @Test func aReadingCanBeEnded() throws {
        try withSession { session in
            let record = try #require(try session.namespace(named: "test", creating: true))
            try session.sql.executeScript(
                """
                insert into pathmirror.node (namespace_id, path, value, version)
                select \(record.id), '/k' || n, '1', 0 from generate_series(1, 20000) as n
                """)
            var reported: [Int] = []
            let ended = try session.loadTree(record.id) { progress in
                reported.append(progress.rows)
                return reported.count < 2 ? .proceed : .end
            }
            #expect(ended?.head == nil)
            #expect(reported == [8_192, 16_384])
            // The connection remains usable.
            let whole = try session.loadTree(record.id)
            #expect(whole.root.childCount == 20_000)
        }
    }
}
