import LogStore
import Postgres
import TestSupport
import Testing

/// Checks that the cost of a write from SQL does not depend on the number of earlier writes in its transaction. Counts
/// the database pages that a call touches instead of time.
@Suite struct SQLWriteCostTests {
    @Test(arguments: [
        "set('test', '/a/k' || n, to_jsonb(n))",
        "update('test', '/a', jsonb_build_object('k' || n, n, 'l' || n, true))",
        "remove('test', '/old/k' || n)",
    ])
    func manyInOneTransaction(call: String) throws {
        try withSession { connection in
            _ = try #require(try connection.namespace(named: "test", creating: true))
            try connection.sql.executeScript(
                """
                select pathmirror.set('test', '/old', (
                    select jsonb_object_agg('k' || n, to_jsonb(repeat('x', 200) || n)) from generate_series(1, 4000) as n));
                begin;
                select count(pathmirror.\(call)) from generate_series(1, 100) as n
                """)
            let early = try Self.pages(connection, call, after: 100)
            try connection.sql.executeScript("select count(pathmirror.\(call)) from generate_series(110, 3000) as n")
            let late = try Self.pages(connection, call, after: 3_000)
            try connection.sql.executeScript("rollback")
            #expect(early > 0)
            // A B-tree that has grown by a level or two needs a few more pages.
            #expect(late <= early + 12, "\(early) pages after 100 writes, \(late) after 3,000")
        }
    }

    /// Checks alternating writes to two namespaces, and lookups as readers do them.
    @Test func severalNamespacesInTurn() throws {
        try withSession { connection in
            for name in ["test", "other"] { _ = try #require(try connection.namespace(named: name, creating: true)) }
            let call = "set(case n % 2 when 0 then 'test' else 'other' end, '/k' || n, to_jsonb(n))"
            try connection.sql.executeScript(
                "begin; select count(pathmirror.\(call)) from generate_series(1, 100) as n")
            let early = try Self.pages(connection, call, after: 100)
            let earlyLook = try Self.pages(
                connection, "namespace_id(case n when 0 then 'other' else 'test' end)", after: 0)
            try connection.sql.executeScript("select count(pathmirror.\(call)) from generate_series(110, 3000) as n")
            let late = try Self.pages(connection, call, after: 3_000)
            let lateLook = try Self.pages(
                connection, "namespace_id(case n when 0 then 'other' else 'test' end)", after: 0)
            try connection.sql.executeScript("commit")
            #expect(late <= early + 12, "\(early) pages after 100 writes, \(late) after 3,000")
            #expect(lateLook <= earlyLook + 12, "\(earlyLook) pages after 100 writes, \(lateLook) after 3,000")
            for name in ["test", "other"] {
                let record = try #require(try connection.namespace(named: name))
                #expect(try Verification.run(connection, record).isClean)
            }
        }
    }

    /// Checks that the session's remembered row position is only a hint: a wrong one causes at most errors, never a
    /// wrong seq.
    @Test(arguments: ["(0,1)", "(4000000,7)", "(0,0)", ""])
    func aWrongHintDoesNoHarm(hint: String) throws {
        try withSession { connection in
            let record = try #require(try connection.namespace(named: "test", creating: true))
            _ = try #require(try connection.namespace(named: "other", creating: true))
            for round in 1...3 {
                try connection.sql.executeScript(
                    """
                    select set_config('pathmirror.place_' || slot, '\(hint)', false) from generate_series(0, 63) as slot;
                    begin;
                    select pathmirror.set('test', '/a', '\(round)');
                    savepoint s;
                    select pathmirror.set('test', '/b', '\(round)');
                    rollback to s;
                    select set_config('pathmirror.place_' || slot, '\(hint)', false) from generate_series(0, 63) as slot;
                    select pathmirror.set('test', '/c', '\(round)');
                    commit
                    """)
            }
            let result = try Verification.run(connection, record)
            #expect(result.isClean)
            #expect(result.head == 6)
        }
    }

    /// Returns the minimum number of pages that a call touches. Some calls start a new page of a table.
    private static func pages(_ connection: LogConnection, _ call: String, after last: Int) throws -> Int64 {
        var least = Int64.max
        for n in (last + 1)...(last + 9) {
            let plan = try connection.sql.execute(
                "explain (analyze, buffers, format json) select pathmirror.\(call) from generate_series(\(n), \(n)) as n"
            )
            let touched = try connection.sql.execute(
                """
                select ($1::json -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint
                    + ($1::json -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint
                """, [.text(try plan.string(0, 0))])
            least = min(least, try touched.int64(0, 0))
        }
        return least
    }
}
