import LogStore
import Mirrors
import Postgres
import TestSupport
import Testing

/// Tests of the effects of applying a definition: none, a change in place, or a new table. Also tests refusals.
@Suite struct PlanTests {
    private static let first = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}}"#

    private func action(_ bench: MirrorBench, _ text: String) throws -> String {
        try bench.operators.plan(try definition(text), namespace: "test").actionName
    }

    @Test(
        arguments: [
            (#"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}}"#, "unchanged", []),
            (
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}, "comment": "c"}"#, "alter",
                ["the comments"]
            ),
            (
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}, "indexes": ["x"]}"#, "alter",
                ["the indexes"]
            ),
            (
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}, "keep errors": 1}"#, "alter",
                ["the number of kept errors"]
            ),
            (
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": "text"}}"#, "rebuild",
                ["the type of x: bigint → text"]
            ),
            (
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "y": "text"}}"#, "rebuild",
                ["the new column y"]
            ),
            (
                #"{"name": "m", "path": "/v/{k}", "filter": "data.child('x').val() > 5", "columns": {"x": "bigint"}}"#,
                "rebuild", ["the filter"]
            ),
            (#"{"name": "m", "path": "/w/{k}", "columns": {"x": "bigint"}}"#, "rebuild", ["the path: /v/{k} → /w/{k}"]),
            (
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}, "table": "other.t"}"#, "rebuild",
                ["the table: mirror.m → other.t"]
            ),
            (#"{"name": "n", "path": "/v/{k}"}"#, "create", []),
        ] as [(String, String, [String])])
    func whatIsToBeDone(text: String, name: String, reasons: [String]) throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}}"#)
            try bench.apply(Self.first)
            let plan = try bench.operators.plan(try definition(text), namespace: "test")
            #expect(plan.actionName == name && plan.reasons == reasons)
            // Planning has no effect. After execution there is nothing left to do.
            #expect(try action(bench, text) == name)
            let outcome = try bench.operators.execute(plan)
            #expect((outcome == nil) == (name == "unchanged" || name == "alter"))
            #expect(try action(bench, text) == "unchanged")
            #expect(try bench.problems() == [])
        }
    }

    @Test func indexesAndCommentsChangeInPlace() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.first)
            let table = try bench.lines("select 'mirror.m'::regclass::oid")
            try bench.apply(
                #"""
                {"name": "m", "path": "/v/{k}", "comment": "it's \\ a \"table\"", "keys": {"k": {"type": "text", "comment": "the key"}},
                 "columns": {"x": {"type": "bigint", "comment": "é"}}, "indexes": ["x", ["_seq", "x"]]}
                """#)
            #expect(try bench.lines("select 'mirror.m'::regclass::oid") == table)
            #expect(
                try bench.lines("select indexname from pg_indexes where schemaname = 'mirror' order by 1") == [
                    "m__seq_x_idx", "m_pkey", "m_x_idx",
                ])
            #expect(try bench.lines("select obj_description('mirror.m'::regclass)") == [#"it's \ a "table""#])
            #expect(
                try bench.lines(
                    "select col_description('mirror.m'::regclass, attnum) from pg_attribute where attrelid = 'mirror.m'::regclass and attname in ('k', 'x') order by attname"
                ) == ["the key", "é"])
            try bench.apply(Self.first)
            #expect(try bench.lines("select indexname from pg_indexes where schemaname = 'mirror'") == ["m_pkey"])
            #expect(try bench.lines("select obj_description('mirror.m'::regclass)") == [""])
        }
    }

    /// Checks which changes count as renames, and which do not.
    @Test(
        arguments: [
            (
                #""path": "/v/{k}", "columns": {"n": {"type": "bigint", "path": "x"}, "t": "text"}, "indexes": [["n", "k"]]"#,
                "alter", ["x is now n"]
            ),
            (
                #""path": "/v/{key}", "columns": {"x": "bigint", "t": "text"}, "indexes": [["x", "key"]]"#, "alter",
                ["k is now key"]
            ),
            (
                #""path": "/v/{key}", "columns": {"n": {"type": "bigint", "path": "x"}, "u": {"type": "text", "path": "t"}}, "rest": "more", "indexes": [["n", "key"]], "comment": "c""#,
                "alter", ["k is now key", "x is now n", "t is now u", "rest is now more", "the comments"]
            ),
            (
                #""path": "/v/{k}", "columns": {"n": {"type": "text", "path": "x"}, "t": "text"}"#, "rebuild",
                ["the new column n", "x is removed"]
            ),
            (
                #""path": "/v/{k}", "columns": {"t": "text", "n": {"type": "bigint", "path": "x"}}"#, "rebuild",
                ["x is now n", "the order of the columns"]
            ),
            // Exchanged names are not free.
            (
                #""path": "/v/{k}", "columns": {"t": {"type": "bigint", "path": "x"}, "x": {"type": "text", "path": "t"}}"#,
                "rebuild",
                ["the type of t: text → bigint", "the path of t", "the type of x: bigint → text", "the path of x"]
            ),
            (
                #""path": "/v/{rest}", "columns": {"x": "bigint", "t": "text"}, "rest": "k""#, "rebuild",
                ["the path: /v/{k} → /v/{rest}", "the column \"rest\""]
            ),
        ] as [(String, String, [String])])
    func renames(members: String, name: String, reasons: [String]) throws {
        let rest = members.contains("rest") ? "" : #", "rest": "rest""#
        let kept = members.contains(#""x": "bigint""#) || name == "rebuild" || members.contains("indexes")
        let indexes = kept ? "" : #", "indexes": [["x", "k"]]"#
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1, "t": "one"}, "b": {"x": "no", "t": {"no": 1}, "more": 2}}"#)
            try bench.apply(
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "t": "text"}, "rest": "rest", "indexes": [["x", "k"]]}"#
            )
            let new = ##"{"name": "m", \##(members)\##(rest)\##(indexes)}"##
            let plan = try bench.operators.plan(try definition(new), namespace: "test")
            #expect(plan.actionName == name)
            #expect(plan.reasons.filter { $0 != "the indexes" } == reasons)
            let table = try bench.lines("select 'mirror.m'::regclass::oid")
            _ = try bench.operators.execute(plan)
            #expect((try bench.lines("select 'mirror.m'::regclass::oid") == table) == (name == "alter"))
            #expect(try action(bench, new) == "unchanged")
            #expect(try bench.problems() == [])
            try bench.following { _ in
                try bench.set("/v/c", #"{"x": "no", "t": "three"}"#)
                try bench.set("/v/b/x", "5")
                try bench.catchUp("m")
                #expect(try bench.problems() == [])
            }
        }
    }

    /// Checks that a rename does not disturb writers, and that errors remain with their rows.
    @Test func aRenameUnderAWriter() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/v/{k}", "columns": {"c0": {"type": "bigint", "path": "x"}}}"#)
            try bench.following { _ in
                for number in 1...20 {
                    try bench.set("/v/a\(number)", number % 2 == 0 ? #"{"x": "no"}"# : #"{"x": \#(number)}"#)
                    try bench.apply(
                        #"{"name": "m", "path": "/v/{k}", "columns": {"c\#(number)": {"type": "bigint", "path": "x"}}}"#
                    )
                }
                try bench.catchUp("m")
                #expect(try bench.problems() == [])
                #expect(try bench.lines("select count(*), count(c20), count(_misfits) from mirror.m") == ["20|10|10"])
                #expect(
                    try bench.lines("select distinct _misfits from mirror.m where _misfits is not null") == ["{c20}"])
                #expect(
                    try bench.errors("m").allSatisfy { $0.hasPrefix("c20 of /v/a") } && bench.errors("m").count == 10)
            }
        }
    }

    @Test func aRebuiltTableKeepsItsReadersAndRights() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1, "y": "t"}}"#)
            try bench.apply(Self.first)
            try bench.script(
                """
                create view mirror.high as select k, x from mirror.m where x > 0;
                create view mirror.higher as select k from mirror.high;
                do $$ begin create role recorded_reader; exception when duplicate_object then null; end $$;
                grant select on mirror.m to recorded_reader
                """)
            try bench.apply(#"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "y": "text"}}"#)
            #expect(try bench.lines("select k, x, y from mirror.m") == ["a|1|t"])
            #expect(try bench.lines("select k from mirror.higher") == ["a"])
            #expect(try bench.lines("select has_table_privilege('recorded_reader', 'mirror.m', 'select')") == ["t"])
            try bench.following { _ in
                try bench.set("/v/b", #"{"x": 2}"#)
                try bench.catchUp("m")
                #expect(try bench.lines("select k from mirror.higher order by k") == ["a", "b"])
            }
            // A table with views cannot be dropped. The error names the views.
            let text = refusal { try bench.operators.drop(try bench.mirror("m")) }
            #expect(
                text.contains("mirror.high") && text.contains("mirror.higher") && text.contains("Nothing was changed."),
                "\(text)")
            #expect(try bench.lines("select count(*) from mirror.m") == ["2"])
            try bench.script("drop view mirror.higher; drop view mirror.high")
            try bench.operators.drop(try bench.mirror("m"))
            try bench.script("drop owned by recorded_reader")
        }
    }

    /// Checks that a materialized view on a table to be replaced is reported before the build, for each kind of build.
    @Test(arguments: ["", #", "deleted": "soft""#])
    func aMaterializedViewIsInTheWayOfANewTable(kind: String) throws {
        try MirrorBench.with { bench in
            let text = { (columns: String) in
                #"{"name": "m", "path": "/v/{k}", "columns": {\#(columns)}\#(kind)}"#
            }
            try bench.set("/v", #"{"a": {"x": 1, "y": "t"}}"#)
            try bench.apply(text(#""x": "bigint""#))
            try bench.script(
                "create view mirror.v as select * from mirror.m; create materialized view mirror.frozen as select * from mirror.v"
            )
            let changed = try definition(text(#""x": "bigint", "y": "text""#))
            let planned = refusal { _ = try bench.operators.plan(changed, namespace: "test") }
            #expect(planned.contains("The materialized view mirror.frozen reads mirror.m and"), "\(planned)")
            let rebuilt = refusal { _ = try bench.operators.rebuild(try bench.mirror("m")) }
            #expect(rebuilt == planned)
            let alone = try definition(text(#""x": "bigint""#).replacing(#""path""#, with: #""comment": "c", "path""#))
            #expect(try bench.operators.plan(alone, namespace: "test").actionName == "alter", "nothing is made anew")
            try bench.script("drop materialized view mirror.frozen")
            _ = try bench.operators.execute(try bench.operators.plan(changed, namespace: "test"))
            #expect(try bench.lines("select y from mirror.m") == ["t"])
        }
    }

    /// Checks that user-defined objects on a removed column are reported before the build.
    @Test func whatIsOnAColumnThatGoes() throws {
        try MirrorBench.with { bench in
            let changed = try definition(#"{"name": "m", "path": "/v/{k}", "columns": {"y": "text"}}"#)
            try bench.set("/v", #"{"a": {"x": 1, "y": "t"}}"#)
            try bench.apply(
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "y": "text"}, "indexes": ["x"]}"#)
            try bench.script(
                """
                create index by_x on mirror.m (x) where y <> ''; create index by_y on mirror.m (y);
                create statistics mirror.pairs on x, y from mirror.m;
                create function mirror.nothing() returns trigger language plpgsql as 'begin return new; end';
                create trigger tell after insert on mirror.m for each row execute function mirror.nothing();
                create view mirror.doubled as select 2 * x as x from mirror.m;
                create policy few on mirror.m using (x > 0)
                """)
            let refused = { refusal { _ = try bench.operators.plan(changed, namespace: "test") } }
            #expect(refused().hasPrefix("The view mirror.doubled reads the column x of mirror.m,"))
            try bench.script("drop view mirror.doubled")
            #expect(refused().hasPrefix("The policy few for the rows of mirror.m reads the column x,"))
            try bench.script("drop policy few on mirror.m")
            let plan = try bench.operators.plan(changed, namespace: "test")
            let others = [
                "The trigger tell is not on the new table.",
                "The statistics object mirror.pairs is not on the new table.",
            ]
            #expect(
                plan.consequences.suffix(3) == ["The index by_x is on the column x, which the new table does not have."]
                    + others)
            let made = try #require(try bench.operators.execute(plan))
            #expect(
                Array(made.lost.suffix(2)) == others
                    && made.lost.contains { $0.hasPrefix("The index by_x can't be created on the new table") })
            #expect(try bench.lines("select indexname from pg_indexes where indexname like 'by_%'") == ["by_y"])
        }
    }

    /// Checks that objects that refer to the table, or that the new table would lack, are reported before the build.
    @Test func whatNamesTheTable() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}}"#)
            try bench.apply(Self.first)
            try bench.script("create view mirror.seen as select k from mirror.m")
            let elsewhere = try definition(
                #"{"name": "m", "path": "/v/{k}", "table": "n", "columns": {"x": "bigint"}}"#)
            let planned = { (one: MirrorDefinition) in
                refusal { _ = try bench.operators.plan(one, namespace: "test") }
            }
            #expect(planned(elsewhere).hasPrefix("The view mirror.seen reads mirror.m, which becomes mirror.n:"))
            let wider = try definition(#"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "y": "text"}}"#)
            try bench.script(
                "drop view mirror.seen; create table public.other (k text collate \"C\" constraint there references mirror.m)"
            )
            #expect(planned(wider).hasPrefix("The foreign key there of other refers to mirror.m and"))
            try bench.script(
                """
                drop table public.other; create table public.other (k text);
                create policy outside on public.other using (exists (select from mirror.m where x > 0))
                """)
            #expect(planned(wider).hasPrefix("The policy outside of other refers to mirror.m and"))
            // A rule is no view.
            try bench.script(
                """
                drop policy outside on public.other;
                create rule doubled as on update to mirror.m where new.x > 500 do also select 1;
                alter table mirror.m replica identity full; create publication all_of_it for table mirror.m;
                alter table mirror.m add half bigint generated always as (x / 2) stored
                """)
            let lost = [
                "The rule doubled is not on the new table.", "The replica identity (full) is not on the new table.",
                "The column half is not on the new table.", "The new table is not in the publication all_of_it.",
            ]
            let narrower = try definition(#"{"name": "m", "path": "/v/{k}", "columns": {"y": "text"}}"#)
            #expect(try bench.operators.plan(narrower, namespace: "test").consequences.suffix(4) == lost[...])
            let made = try bench.operators.execute(try bench.operators.plan(wider, namespace: "test"))
            #expect(made?.lost == lost)
        }
    }

    /// Checks that a planned mirror is not built if it has been removed meanwhile, because no gateway would follow it.
    @Test(arguments: ["", #", "keeps": "changes""#])
    func aMirrorThatIsRemovedMeanwhile(kind: String) throws {
        try MirrorBench.with { bench in
            let text = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}\#(kind)}"#
            let log = try LogConnection(bench.url)
            defer { log.close() }
            let namespace = try #require(try log.namespace(named: "test"))
            let one = try definition(text)
            let id = try log.addMirror(namespace.id, name: "m", definition: one.json, target: nil)
            let plan = try bench.operators.plan(one, namespace: "test")
            #expect(plan.reasons == ["an earlier attempt was interrupted"])
            try log.removeMirror(namespace.id, id)
            #expect(
                refusal { _ = try bench.operators.execute(plan) }.contains("Another process removed mirror"))
            #expect(
                try bench.lines(
                    "select to_regclass('mirror.m') is null and not exists (select from pathmirror.mirror_cursor)") == [
                        "t"
                    ])
            // It is not built either if another session has just added it.
            let both = try bench.operators.plan(one, namespace: "test")
            _ = try log.addMirror(namespace.id, name: "m", definition: one.json, target: nil)
            #expect(refusal { _ = try bench.operators.execute(both) }.contains("Another process added mirror"))
            try bench.apply(text)
            #expect(try bench.problems() == [])
        }
    }

    /// Checks mirrors whose prefixed names are equal in the first 63 bytes.
    @Test func mirrorsOfLongNames() throws {
        try MirrorBench.with { bench in
            let name = String(repeating: "long_", count: 12)
            for number in 1...2 {
                try bench.apply(
                    #"{"name": "\#(name)\#(number)", "path": "/v\#(number)/{k}", "table": "t\#(number)", "columns": {"x": "bigint"}}"#
                )
            }
            try bench.following { _ in
                for number in 1...2 { try bench.set("/v\(number)/a/x", "\(number)") }
                for number in 1...2 { try bench.set("/v\(number)/b/x", "null") }
                try bench.catchUp("\(name)1", "\(name)2")
            }
            #expect(try bench.lines("select t1.x, t2.x from mirror.t1, mirror.t2") == ["1|2"])
            #expect(try bench.problems() == [])
        }
    }

    @Test func aViewOfAColumnThatGetsAnotherType() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.first)
            try bench.script("create view mirror.seen as select k from mirror.m where x is not null")
            let text = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "text"}}"#
            let plan = try bench.operators.plan(try definition(text), namespace: "test")
            #expect(
                plan.consequences.last
                    == "mirror.seen reads the column x, whose type changes: the rebuild fails if mirror.seen does not accept the new type."
            )
            _ = try bench.operators.execute(plan)
        }
    }

    /// Checks a rename in a table that keeps removed rows: views read the column under its new name.
    @Test func aRenameOfATableThatKeepsTheLast() throws {
        try MirrorBench.with { bench in
            let text = { (name: String) in
                #"{"name": "m", "path": "/v/{k}", "deleted": "soft", "columns": {"\#(name)": {"type": "bigint", "path": "x"}}}"#
            }
            try bench.set("/v", #"{"a": {"x": 1}, "b": {"x": 2}, "c": {"x": "no"}}"#)
            try bench.apply(text("x"))
            try bench.script("create view mirror.seen as select k, x from mirror.m")
            try bench.following { _ in
                try bench.set("/v/a", "null")
                try bench.catchUp("m")
                let plan = try bench.operators.plan(try definition(text("count")), namespace: "test")
                #expect(plan.actionName == "alter" && plan.reasons == ["x is now count"])
                _ = try bench.operators.execute(plan)
                try bench.set("/v/b/x", "5")
                try bench.catchUp("m")
                #expect(
                    try bench.lines("select k, count, _deleted_at is null from mirror.m order by k") == [
                        "a|1|f", "b|5|t", "c||t",
                    ])
                #expect(try bench.lines("select k, x from mirror.seen order by k") == ["a|1", "b|5", "c|"])
                #expect(try bench.errors("m").map { $0.prefix(12) } == ["count of /v/"])
                try bench.set("/v/c/x", "7")
                try bench.catchUp("m")
                #expect(try bench.errors("m") == [])
                #expect(try bench.problems() == [])
            }
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            #expect(try bench.problems() == [])
        }
    }

    @Test func tablesOfOthersAreRefused() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.first)
            try bench.script("create table mirror.taken (x int)")
            let cases = [
                (
                    #"{"name": "n", "path": "/v/{k}", "table": "mirror.m"}"#,
                    #"mirror.m is the table of mirror "m" of namespace "test". Give mirror "n" of namespace "test" another one in its definition, such as "table": "mirror.test_m"."#
                ),
                (
                    #"{"name": "n", "path": "/v/{k}", "table": "taken"}"#,
                    "mirror.taken exists and belongs to no mirror: rename that table, or choose another name."
                ),
                (
                    #"{"name": "m", "path": "/v/{k}", "table": "taken"}"#,
                    "mirror.taken exists and belongs to no mirror: rename that table, or choose another name."
                ),
                (
                    #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}, "target": "postgresql://x@127.0.0.1:1/y"}"#,
                    ""
                ),
            ]
            for (text, reason) in cases {
                let found = refusal { _ = try bench.operators.plan(try definition(text), namespace: "test") }
                #expect(reason.isEmpty ? !found.isEmpty : found == reason, "\(text)")
            }
            #expect(
                refusal { _ = try bench.operators.plan(try definition(Self.first), namespace: "none") }.contains("none")
            )
            #expect(refusal { _ = try bench.mirror("none") } == #"There is no mirror "none" in namespace "test"."#)
        }
    }

    @Test func aTableThatIsGoneIsMadeAgain() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}}"#)
            try bench.apply(Self.first)
            try bench.script("drop table mirror.m")
            let plan = try bench.operators.plan(try definition(Self.first), namespace: "test")
            #expect(plan.actionName == "rebuild" && plan.reasons == ["the table is missing"])
            #expect(try bench.operators.execute(plan)?.rows == 1)
            #expect(try bench.lines("select x from mirror.m") == ["1"])
        }
    }

    @Test func rebuildingSaysWhatItWouldDoAndWhatItDid() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}, "b": {"x": "t"}, "c": 3}"#)
            try bench.apply(
                #"{"name": "m", "path": "/v/{k}", "columns": {"x": {"type": "bigint", "not null": "skip"}}}"#)
            let mirror = try bench.mirror("m")
            let survey = try bench.operators.surveyRebuild(mirror)
            #expect(
                (survey.seq, survey.records, survey.rows, survey.conversionErrors, survey.cursor) == (1, 3, 1, 1, 1))
            #expect(survey.leftovers == [])
            try bench.script("update mirror.m set x = 99; insert into mirror.m (k, x, _seq) values ('zz', 1, 1)")
            let outcome = try bench.operators.rebuild(mirror)
            #expect((outcome.rows, outcome.conversionErrors, outcome.verifiedSeq) == (1, 1, 1))
            #expect(try bench.lines("select k, x from mirror.m") == ["a|1"])
            #expect(try bench.problems() == [])
        }
    }

    @Test func entriesAreAppliedAgainFromAPosition() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.first)
            try bench.set("/v/a", #"{"x": 1}"#)
            try bench.set("/v/b", #"{"x": 2}"#)
            try bench.set("/v/c", #"{"x": 3}"#)
            try bench.following { _ in try bench.catchUp("m") }
            try bench.script("update mirror.m set x = -x")
            let mirror = try bench.mirror("m")
            let survey = try bench.operators.surveyAgain(mirror, from: 2)
            #expect((survey.first, survey.head, survey.touching) == (2, 3, 2))
            _ = try bench.operators.applyAgain(mirror, from: 2)
            // Records without a later write remain unchanged.
            #expect(try bench.lines("select k, x from mirror.m order by k") == ["a|-1", "b|2", "c|3"])
        }
    }
}
