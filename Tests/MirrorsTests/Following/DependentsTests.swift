import LogStore
import Mirrors
import TestSupport
import Testing

/// Tests of objects that depend on a mirror's table, and of how plans handle them.
@Suite struct DependentsTests {
    private static let first = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}}"#

    /// Checks that objects that depend on the table or its row type are reported before a new table is built.
    @Test(
        arguments: [
            (
                "create function mirror.f(mirror.m) returns int language sql as 'select 1'",
                "The function mirror.f(mirror.m) depends on"
            ),
            (
                "create function mirror.g() returns setof mirror.m language sql as 'select * from mirror.m'",
                "The function mirror.g() depends on"
            ),
            (
                "create function mirror.h() returns bigint language sql begin atomic; select count(*) from mirror.m; end",
                "The function mirror.h() depends on"
            ),
            ("create procedure mirror.p(mirror.m[]) language sql as ''", "The procedure mirror.p("),
            ("create table mirror.kept (row mirror.m)", "The table mirror.kept depends on"),
            ("create view mirror.whole as select m from mirror.m as m", "The view mirror.whole depends on"),
            (
                "create view mirror.all_of_it as select array_agg(m) from mirror.m as m",
                "The view mirror.all_of_it depends on"
            ),
            ("create type mirror.pair as (one mirror.m, other mirror.m)", "The type mirror.pair depends on"),
            ("create domain mirror.checked as mirror.m", "The type mirror.checked depends on"),
            ("create table mirror.child () inherits (mirror.m)", "The table mirror.child inherits from mirror.m"),
        ])
    func whatDependsOnTheTable(statement: String, expected: String) throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}}"#)
            try bench.apply(Self.first)
            try bench.script(statement)
            let wider = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "y": "text"}}"#
            let found = refusal { _ = try bench.operators.plan(try definition(wider), namespace: "test") }
            #expect(found.hasPrefix(expected), "\(found)")
            // A change without a rebuild is possible.
            try bench.apply(#"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}, "comment": "c"}"#)
        }
    }

    /// Checks that a view that derives values from whole rows continues to work with the next table.
    @Test func whatDoesNotDependOnTheRowType() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}}"#)
            try bench.apply(Self.first)
            try bench.script(
                """
                create view mirror.seen as select to_jsonb(m) as row, (m)::text as text, count(*) over () from mirror.m as m;
                create function mirror.f() returns bigint language sql as 'select count(*) from mirror.m';
                create table public.parent (); alter table mirror.m inherit public.parent
                """)
            let wider = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "y": "text"}}"#
            let plan = try bench.operators.plan(try definition(wider), namespace: "test")
            #expect(plan.consequences.last == "The new table does not inherit from parent.")
            _ = try bench.operators.execute(plan)
            #expect(try bench.lines("select row ->> 'x', mirror.f() from mirror.seen") == ["1|1"])
        }
    }

    /// Checks that indexes on `a_b` and on `a` and `b` have different names.
    @Test func likeColumnsMakeIndexesOfTheirOwn() throws {
        try MirrorBench.with { bench in
            let mirror = { (indexes: String) in
                #"{"name": "m", "path": "/u/{k}", "columns": {"a_b": "text", "a": "text", "b": "text"}, "indexes": [\#(indexes)]}"#
            }
            let indexes = { try bench.lines("select indexname from pg_indexes where schemaname = 'mirror' order by 1") }
            try bench.apply(mirror(#"["a_b"]"#))
            #expect(try indexes() == ["m_a_b_idx", "m_pkey"])
            try bench.apply(mirror(#"["a_b"], ["a", "b"]"#))
            let two = try indexes()
            #expect(two.count == 3 && !two.contains("m_a_b_idx"))
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            #expect(try indexes() == two)
            try bench.apply(mirror(#"["a", "b"]"#))
            #expect(try indexes() == ["m_a_b_idx", "m_pkey"])
            #expect(
                try bench.lines("select indexdef from pg_indexes where indexname = 'm_a_b_idx'") == [
                    "CREATE INDEX m_a_b_idx ON mirror.m USING btree (a, b)"
                ])
        }
    }
}
