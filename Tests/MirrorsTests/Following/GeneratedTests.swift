import LogStore
import TestSupport
import Testing

@testable import Mirrors

/// Columns that PostgreSQL computes from the others.
@Suite struct GeneratedTests {
    private static let orders = #"""
        {"name": "m", "path": "/o/{k}", "columns": {"at": "timestamptz", "price": "bigint", "count": "bigint", "note": "text"},
         "generated": {
            "day": {"type": "date", "as": "(at at time zone 'UTC')::date", "comment": "The day in UTC"},
            "each": {"type": "numeric(12, 2)", "as": "price::numeric / count -- of one"},
            "words": {"type": "tsvector", "as": "to_tsvector('simple', coalesce(note, ''))"}},
         "indexes": ["day", "words"]}
        """#

    private func rows(_ bench: MirrorBench) throws -> [String] {
        try bench.lines("select k, day, each, words from mirror.m order by k")
    }

    @Test func theyAreComputedWhereverARowComesFrom() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a", #"{"at": "2026-01-31T23:00:00Z", "price": 10, "count": 4, "note": "Blue tea"}"#)
            try bench.apply(Self.orders)
            #expect(try rows(bench) == ["a|2026-01-31|2.50|'blue':1 'tea':2"])
            try bench.following { _ in
                try bench.set("/o/b", #"{"at": "2026-02-01T00:30:00+01:00", "price": 3, "count": 1}"#)
                try bench.set("/o/a/count", "5")
                try bench.catchUp("m")
                #expect(try rows(bench) == ["a|2026-01-31|2.00|'blue':1 'tea':2", "b|2026-01-31|3.00|"])
            }
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            #expect(try rows(bench) == ["a|2026-01-31|2.00|'blue':1 'tea':2", "b|2026-01-31|3.00|"])
            #expect(try bench.problems() == [])
            #expect(
                try bench.lines(
                    "select indexdef like '% USING gin%' from pg_indexes where tablename = 'm' order by indexname"
                ) == ["f", "f", "t"])
            let comments = try bench.lines(
                """
                select col_description('mirror.m'::regclass, attnum) from pg_attribute
                where attrelid = 'mirror.m'::regclass and attname in ('day', 'each') order by attname
                """)
            #expect(comments == ["The day in UTC", "Computed: price::numeric / count -- of one"])
            var exported = ""
            _ = try bench.operators.export(try bench.mirror("m"), MirrorExport(.csv, since: nil)) { bytes, _ in
                exported += String(decoding: bytes, as: UTF8.self)
            }
            #expect(exported.hasPrefix("k,at,price,count,note,_seq,_updated_at,_misfits,day,each,words\n"))
            #expect(exported.contains(",2026-01-31,3.00,"))
            #expect(DbtSources([try bench.mirror("m")]).yaml.contains("\"day\""))
        }
    }

    @Test(arguments: [false, true]) func whatCannotBeComputedIsRecorded(isThereBefore: Bool) throws {
        try MirrorBench.with { bench in
            let values = #"{"a": {"price": 1, "count": 0}, "b": {"price": 4, "count": 2}}"#
            if isThereBefore { try bench.set("/o", values) }
            try bench.apply(Self.orders)
            try bench.following { _ in
                if !isThereBefore { try bench.set("/o", values) }
                try bench.catchUp("m")
                #expect(try bench.lines("select k, each from mirror.m") == ["b|2.00"])
                #expect(try bench.errors("m") == [" of /o/a: the table refuses the row: division by zero"])
                #expect(try bench.problems() == [])
                try bench.set("/o/a/count", "1")
                try bench.catchUp("m")
                #expect(try bench.lines("select k, each from mirror.m order by k") == ["a|1.00", "b|2.00"])
                #expect(try bench.errors("m") == [])
            }
        }
    }

    /// Whatever an expression raises, a client's value must not stop the mirror.
    @Test(
        arguments: [
            ("date_trunc(note, at at time zone 'UTC')::date", "timezone", "unit \"timezone\" not supported"),
            ("public.strict(note)", "bad", "no good: bad"),
        ], [false, true])
    func noErrorOfAnExpressionStopsAMirror(_ one: (String, String, String), isThereBefore: Bool) throws {
        let (expression, value, reason) = one
        try MirrorBench.with { bench in
            try bench.script(
                """
                create function public.strict(t text) returns date language plpgsql immutable as $f$
                begin if t like 'bad%' then raise exception 'no good: %', t; end if; return date '2026-01-01'; end $f$
                """)
            let text = #"""
                {"name": "m", "path": "/o/{k}", "history": "versions", "columns": {"at": "timestamptz", "note": "text"},
                 "generated": {"day": {"type": "date", "as": "\#(expression)"}}}
                """#
            let set = {
                try bench.set("/o/b", #"{"at": 1700000000000, "note": "day"}"#)
                try bench.set("/o/a", "{\"at\": 1700000000000, \"note\": \"\(value)\"}")
            }
            if isThereBefore { try set() }
            try bench.applyAll(text)
            try bench.following { _ in
                if !isThereBefore { try set() }
                try bench.catchUp("m", "m_versions")
                #expect(try bench.lines("select k from mirror.m") == ["b"])
                let errors = try bench.errors("m") + bench.errors("m_versions")
                #expect(errors.count == 2 && errors.allSatisfy { $0.contains(reason) }, "\(errors)")
                try bench.set("/o/a/note", #""day""#)
                try bench.catchUp("m", "m_versions")
                #expect(try bench.lines("select k from mirror.m order by k") == ["a", "b"])
            }
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            _ = try bench.operators.rebuild(try bench.mirror("m_versions"))
            #expect(try bench.problems() == [])
        }
    }

    /// The version that says so has no values.
    @Test func aRemovalIsKeptWhereNoValuesCannotBeComputed() throws {
        try MirrorBench.with { bench in
            try bench.applyAll(
                #"""
                {"name": "m", "path": "/o/{k}", "history": "versions", "columns": {"x": "bigint"},
                 "generated": {"g": {"type": "bigint", "as": "100 / coalesce(x, 0)"}}}
                """#)
            try bench.following { _ in
                try bench.set("/o/a/x", "4")
                try bench.set("/o/a", "null")
                try bench.catchUp("m", "m_versions")
            }
            #expect(try bench.lines("select g, _deleted from mirror.m_versions order by _seq") == ["25|f", "|t"])
            #expect(try bench.errors("m_versions") == [])
        }
    }

    /// A column that an expression names gets another name together with the expression, or not at all.
    @Test func aRenamedColumnTakesItsExpressionAlong() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a/n", "4")
            try bench.apply(
                #"{"name": "m", "path": "/o/{k}", "columns": {"n": "bigint"}, "generated": {"g": {"type": "bigint", "as": "n * 2"}}}"#
            )
            try bench.script("create view mirror.v as select g from mirror.m")
            let next = #"""
                {"name": "m", "path": "/o/{k}", "columns": {"num": {"type": "bigint", "path": "n"}},
                 "generated": {"g": {"type": "numeric", "as": "num * 2"}}}
                """#
            #expect(throws: MirrorError.self) { try bench.apply(next) }
            // What was refused has left a table that can be made anew.
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            try bench.script("drop view mirror.v")
            try bench.apply(next)
            #expect(try bench.lines("select num, g from mirror.m") == ["4|8"])
            // A column that no expression names is renamed in place as ever.
            let plan = try bench.operators.plan(
                try definition(next.replacing(#""/o/{k}""#, with: #""/o/{key}""#)), namespace: "test")
            #expect(plan.actionName == "alter")
        }
    }

    @Test func typesMayHaveSeveralWords() throws {
        try MirrorBench.with { bench in
            try bench.apply(
                #"""
                {"name": "m", "path": "/o/{k}", "columns": {"at": "timestamptz"},
                 "generated": {"g": {"type": "timestamp(3) without time zone", "as": "at at time zone 'UTC'"},
                    "h": {"type": "double precision", "as": "1"}, "i": {"type": "text[]", "as": "array[k]"}}}
                """#)
            #expect(try bench.lines("select count(*) from mirror.m") == ["0"])
        }
    }

    @Test(arguments: [
        (#""g": {"type": "bigint not null", "as": "x"}"#, "syntax error"),
        (#""g": {"type": "bigint unique", "as": "x"}"#, "syntax error"),
        (
            #""g": {"type": "bigint", "as": "x) stored, drop column x, add column h bigint generated always as (2"}"#,
            "can't be"
        ),
        (
            #""g": {"type": "bigint", "as": "_seq) stored, drop column x, add column h bigint generated always as (2"}"#,
            "parentheses"
        ),
        (#""g": {"type": "bigint", "as": "x + zzz"}"#, #"column "zzz" does not exist"#),
        (#""g": {"type": "timestamptz", "as": "now()"}"#, "generation expression is not immutable"),
        (#""g": {"type": "date", "as": "_updated_at::date"}"#, "at time zone 'UTC'"),
        (#""g": {"type": "nosuch", "as": "x"}"#, #"type "nosuch" does not exist"#),
        (#""g": {"type": "date", "as": "x"}"#, "is of type date but"),
        (
            #""g": {"type": "bigint", "as": "1) stored; create table mirror.mine (a int); select (2"}"#,
            "multiple commands"
        ),
        (#""g": {"type": "bigint", "as": "1) stored, add column h bigint default (2"}"#, "syntax error at or near"),
        (#""g": {"type": "bigint", "as": "1) stored, add column h bigint generated always as (2"}"#, "parentheses"),
        (#""g": {"type": "bigint", "as": "f + 1"}, "f": {"type": "bigint", "as": "x"}"#, #"column "f" does not exist"#),
    ])
    func whatCannotBeIsRefusedBeforeAnythingIsMade(column: String, reason: String) throws {
        try MirrorBench.with { bench in
            let text = #"{"name": "m", "path": "/o/{k}", "columns": {"x": "bigint"}, "generated": {\#(column)}}"#
            var message = ""
            do { _ = try bench.operators.plan(try definition(text), namespace: "test") } catch { message = "\(error)" }
            #expect(message.contains(reason), "\(message)")
            #expect(message.contains("mirror \"m\""))
            let made = try bench.lines(
                "select relname from pg_class where relnamespace = to_regnamespace('mirror')")
            #expect(made == [])
        }
    }

    @Test func aChangedExpressionMakesTheTableAnew() throws {
        try MirrorBench.with { bench in
            let text = { (members: String) in
                #"{"name": "m", "path": "/o/{k}", "columns": {"x": "bigint"}, "generated": {\#(members)}}"#
            }
            try bench.set("/o/a/x", "4")
            try bench.apply(text(#""g": {"type": "bigint", "as": "x + 1"}"#))
            #expect(try bench.lines("select g from mirror.m") == ["5"])
            let same = try bench.operators.plan(
                try definition(text(#""g": {"type": "bigint", "as": "x + 1"}"#)), namespace: "test")
            #expect(same.actionName == "unchanged")
            let described = try bench.operators.plan(
                try definition(text(#""g": {"type": "bigint", "as": "x + 1", "comment": "c"}"#)), namespace: "test")
            #expect(described.actionName == "alter" && described.reasons == ["the comments"])
            let plan = try bench.operators.plan(
                try definition(
                    text(#""g": {"type": "bigint", "as": "x + 2"}, "h": {"type": "text", "as": "k || '!'"}"#)),
                namespace: "test")
            #expect(plan.actionName == "rebuild")
            #expect(plan.reasons == ["the generated column g", "the generated column h"])
            _ = try bench.operators.execute(plan)
            #expect(try bench.lines("select g, h from mirror.m") == ["6|a!"])
            let last = try bench.operators.plan(try definition(text("")), namespace: "test")
            #expect(last.reasons == ["g is gone", "h is gone"])
        }
    }

    @Test func historiesHaveThemWhereTheyHaveColumns() throws {
        try MirrorBench.with { bench in
            let text = #"""
                {"name": "m", "path": "/o/{k}", "history": ["changes", "versions"], "columns": {"x": "bigint"},
                 "generated": {"g": {"type": "bigint", "as": "x * 2"}}}
                """#
            try bench.set("/o/a/x", "1")
            try bench.applyAll(text)
            try bench.following { _ in
                try bench.set("/o/a/x", "2")
                try bench.set("/o/a", "null")
                try bench.catchUp("m", "m_changes", "m_versions")
            }
            #expect(
                try bench.lines("select x, g, _deleted from mirror.m_versions order by _seq") == [
                    "1|2|f", "2|4|f", "||t",
                ])
            #expect(try bench.lines("select count(*) from mirror.m_changes") == ["3"])
            #expect(try bench.problems() == [])
            try bench.operators.drop(try bench.mirror("m_versions"))
            // Made of the log again.
            try bench.applyAll(text)
            #expect(
                try bench.lines("select x, g, _deleted from mirror.m_versions order by _seq") == [
                    "1|2|f", "2|4|f", "||t",
                ])
        }
    }

    @Test func definitionsAreReadAsTheyWereWritten() throws {
        let found = try definition(Self.orders)
        #expect(found.generated.map(\.name) == ["day", "each", "words"])
        #expect(found.generated[1].expression == "price::numeric / count -- of one")
        #expect(try definition(String(decoding: found.json, as: UTF8.self)) == found)
    }
}
