import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of rows that an object of the table rejects.
@Suite struct KeptOutRowsTests {
    private static let plain = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}}"#

    /// - Parameter events: The trigger's events, such as `insert or update`.
    private static func swallowing(_ events: String) -> String {
        """
        create function mirror.swallow() returns trigger language plpgsql as $$
        begin
            -- The row of a history has the columns in _new.
            if coalesce(to_jsonb(new) ->> 'x', to_jsonb(new) -> '_new' ->> 'x') = '7' then return null; end if;
            return new;
        end $$;
        create trigger swallow before \(events) on mirror.m for each row execute function mirror.swallow()
        """
    }

    private static func keptOut(_ record: String) -> String {
        " of /v/\(record): the table refuses the row: a trigger rejects the row"
    }

    @Test func aTriggerKeepsRowsOut() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.plain)
            try bench.script(Self.swallowing("insert or update"))
            try bench.following { _ in
                try bench.update("/v", (0..<20).map { ("k\(10 + $0)", "{\"x\": \($0)}") })
                try bench.catchUp("m")
                #expect(try bench.errors("m") == [Self.keptOut("k17")])
                #expect(try bench.lines("select count(*), count(*) filter (where k = 'k17') from mirror.m") == ["19|0"])
                #expect(try bench.problems() == [])
                // The existing row keeps the state that the trigger preserves.
                try bench.set("/v/k10/x", "7")
                try bench.catchUp("m")
                #expect(try bench.errors("m").contains(Self.keptOut("k10")))
                #expect(try bench.lines("select x from mirror.m where k = 'k10'") == ["0"])
                try bench.set("/v/k30/x", "30")
                try bench.catchUp("m")
                #expect(try bench.lines("select x from mirror.m where k = 'k30'") == ["30"])
                try bench.script("drop trigger swallow on mirror.m")
                #expect(try bench.operators.retryConversionErrors(try bench.mirror("m")).left == 0)
                #expect(try bench.lines("select count(*) from mirror.m") == ["21"])
                #expect(try bench.problems() == [])
            }
        }
    }

    /// Checks rejected rows of a history's table, which is written by other statements.
    @Test(arguments: [("\"keeps\": \"changes\"", "m_versions"), ("\"deleted\": \"soft\"", "m")])
    func aTriggerOfAHistoryKeepsRowsOut(kind: String, rows: String) throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}, \#(kind)}"#)
            try bench.script(Self.swallowing("insert or update"))
            try bench.following { _ in
                try bench.update("/v", [("a/x", "1"), ("b/x", "7"), ("c/x", "3")])
                try bench.catchUp("m")
                #expect(try bench.errors("m") == [Self.keptOut("b")])
                #expect(try bench.lines("select k, x from mirror.\(rows) order by k") == ["a|1", "c|3"])
            }
        }
    }

    /// Checks that rows are not removed because a trigger prevents updates.
    @Test func aTriggerFreezesRows() throws {
        try MirrorBench.with { bench in
            try bench.set("/v/a/x", "1")
            try bench.apply(Self.plain)
            try bench.script(Self.swallowing("update"))
            try bench.following { _ in
                try bench.set("/v/a/x", "7")
                try bench.catchUp("m")
                #expect(try bench.lines("select k, x from mirror.m") == ["a|1"])
                #expect(try bench.errors("m") == [Self.keptOut("a")])
            }
        }
    }

    /// Checks that a mirror stops while a rule rejects all of its rows, and continues without loss once the rule is
    /// dropped.
    @Test(arguments: ["do instead nothing", "do also select 1"]) func aRuleReplacesTheStatement(action: String) throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.plain)
            try bench.apply(#"{"name": "other", "path": "/v/{k}", "columns": {"x": "bigint"}}"#)
            try bench.following { _ in
                try bench.set("/v/a/x", "1")
                try bench.catchUp("m", "other")
                try bench.script("create rule hindrance as on insert to mirror.m \(action)")
                try bench.set("/v/b/x", "2")
                let isBroken = "select state, message ~ 'rule' from pathmirror.mirror_status where name = 'm'"
                #expect(try eventually { try bench.lines(isBroken) == ["broken|t"] })
                #expect(try bench.status("m").seq == 1)
                // The other mirrors of the group continue.
                try bench.catchUp("other")
                #expect(try bench.lines("select k, x from mirror.m") == ["a|1"])
                // The server keeps a plan without effect until the statement is prepared again.
                try bench.script("drop rule hindrance on mirror.m")
                try bench.catchUp("m")
                #expect(try bench.lines("select k, x from mirror.m order by k") == ["a|1", "b|2"])
                #expect(try bench.errors("m") == [] && bench.problems() == [])
            }
        }
    }

    /// Checks that a statement is planned again before a row is refused: a plan made under a rule has no effect after
    /// the rule is dropped either.
    @Test func aPlanThatOutlivesItsRuleIsMadeAgain() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.plain)
            let connection = try PostgresConnection(bench.url)
            defer { connection.close() }
            let mirror = try bench.mirror("m")
            let active = ActiveMirror(mirror, try #require(try MirrorCursor.of(mirror, connection)))
            var conversionErrors: [ConversionError] = []
            let row = active.projector.row(
                try node(#"{"x": 1}"#), keys: [Key("a")], stamp: Stamp(seq: 1, committedAt: nil),
                conversionErrors: &conversionErrors)
            let rows = [try #require(row)]
            try bench.script("create rule hindrance as on insert to mirror.m do instead nothing")
            _ = try connection.executePrepared(active.table.upsert, RowEncoder.upsert(active.table, rows))
            try bench.script("drop rule hindrance on mirror.m")
            try connection.executeScript("begin")
            try TableWriter(connection).upsertCarefully(rows[...], &conversionErrors, active)
            try connection.executeScript("commit")
            #expect(conversionErrors.isEmpty, "\(conversionErrors)")
            #expect(try bench.lines("select k, x from mirror.m") == ["a|1"])
        }
    }

    /// Checks that the previous row does not remain after the server's own error with that SQLSTATE.
    @Test func aTriggerThatChangesItsOwnRow() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.plain)
            try bench.script(
                """
                create function mirror.refuse() returns trigger language plpgsql as $$
                begin
                    if new.x = 7 then raise exception 'changed by itself' using errcode = '27000'; end if;
                    return new;
                end $$;
                create trigger refuse before insert or update on mirror.m for each row execute function mirror.refuse()
                """)
            try bench.following { _ in
                try bench.set("/v", #"{"a": {"x": 1}, "b": {"x": 2}}"#)
                try bench.catchUp("m")
                try bench.set("/v/a/x", "7")
                try bench.catchUp("m")
                #expect(try bench.lines("select k, x from mirror.m") == ["b|2"])
                #expect(try bench.errors("m") == [" of /v/a: the table refuses the row: changed by itself"])
            }
        }
    }

    /// Checks that only the affected mirror stops if the reason for rejected rows cannot be determined.
    @Test func aTableThatCanNotBeCompared() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "j": "jsonb"}}"#)
            try bench.apply(#"{"name": "other", "path": "/v/{k}", "columns": {"x": "bigint"}}"#)
            // This type has no equality operator.
            try bench.script("alter table mirror.m alter column j type json; \(Self.swallowing("insert or update"))")
            try bench.script(
                """
                create table public.broken (name text);
                create function public.note() returns trigger language plpgsql as $$
                begin
                    insert into public.broken select name from pathmirror.mirror where id = new.mirror and new.state = 'broken';
                    return new;
                end $$;
                create trigger note after insert or update on pathmirror.mirror_run for each row execute function public.note()
                """)
            try bench.following { _ in
                try bench.set("/v/a/x", "7")
                #expect(
                    try eventually {
                        try bench.lines("select state from pathmirror.mirror_status where name = 'm'") == ["broken"]
                    })
                for number in 0..<5 {
                    try bench.set("/v/b/x", "\(number)")
                    try bench.catchUp("other")
                }
                #expect(try bench.lines("select distinct name from public.broken") == ["m"])
            }
        }
    }

    /// Checks that statements that are prepared again, as with each try under a rule, leave nothing on the server.
    @Test func aForgottenStatementLeavesNothingOnTheServer() throws {
        try MirrorBench.with { bench in
            let statement = PostgresStatement("upsert \"m\" 1", "select 1::bigint")
            for _ in 0..<3 {
                #expect(try bench.sql.executePrepared(statement).int64(0, 0) == 1)
                try bench.sql.forget(statement)
            }
            #expect(try bench.sql.execute("select count(*) from pg_prepared_statements").int64(0, 0) == 0)
        }
    }

    /// Checks that a trigger may reject updates that change nothing.
    @Test func aTriggerKeepsOutUpdatesThatChangeNothing() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}, "b": {"x": 2}}"#)
            try bench.apply(Self.plain)
            try bench.script(
                "create trigger z before update on mirror.m for each row execute function suppress_redundant_updates_trigger()"
            )
            for _ in 0..<2 { _ = try bench.operators.applyAgain(try bench.mirror("m"), from: 1) }
            #expect(try bench.lines("select k, x from mirror.m order by k") == ["a|1", "b|2"])
            #expect(try bench.errors("m") == [] && bench.problems() == [])
        }
    }

    /// Checks a user-defined unique index: a row that it rejects is an error of its record until the record is written
    /// again, or until a repair.
    @Test func aUniqueIndexMadeByHand() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/u/{k}", "columns": {"email": "text"}}"#)
            try bench.script("create unique index once on mirror.m (email)")
            func expect(_ rows: [String], refused: [String]) throws {
                try bench.catchUp("m")
                #expect(try bench.lines("select k, email from mirror.m order by k") == rows)
                let reason = #"the table refuses the row: duplicate key value violates unique constraint "once""#
                #expect(try bench.errors("m") == refused.map { " of /u/\($0): \(reason)" })
                #expect(try bench.problems() == [])
            }
            try bench.following { _ in
                try bench.set("/u/a/email", #""x""#)
                try expect(["a|x"], refused: [])
                try bench.set("/u/b/email", #""x""#)
                try expect(["a|x"], refused: ["b"])
                try bench.set("/u/a", "null")
                try expect([], refused: ["b"])
                try bench.set("/u/b", #"{"email": "x", "n": 1}"#)
                try expect(["b|x"], refused: [])
                try bench.set("/u/c/email", #""x""#)
                try expect(["b|x"], refused: ["c"])
                try bench.set("/u/b/email", #""y""#)
                try expect(["b|y"], refused: ["c"])
                #expect(try bench.operators.retryConversionErrors(try bench.mirror("m")).left == 0)
                try expect(["b|y", "c|x"], refused: [])
                try bench.set("/u/d/email", #""y""#)
                try expect(["b|y", "c|x"], refused: ["d"])
                try bench.set("/u/b", "null")
                try expect(["c|x"], refused: ["d"])
            }
            // The new table gets the index, and the row that now fits.
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            try expect(["c|x", "d|y"], refused: [])
            #expect(try bench.lines("select indexname from pg_indexes where indexname = 'once'") == ["once"])
        }
    }
}
