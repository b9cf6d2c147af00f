import LogStore
import TestSupport
import Testing

@testable import Mirrors

/// Tests of tables that earlier versions created or left incomplete, and of objects with the name of a table.
@Suite struct EarlierTablesTests {
    private static let plain = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}}"#
    private static let history =
        #"{"name": "m_changes", "path": "/v/{k}", "columns": {"x": "bigint"}, "keeps": "changes"}"#

    private static let kinds = [plain, history]
    private static let refersTo = [
        plain, #"{"name": "m", "deleted": "soft", "path": "/v/{k}", "columns": {"x": "bigint"}}"#,
    ]

    /// Checks that a partitioned table left by a killed build is removed.
    @Test(arguments: kinds) func aHalfMadeTableWithPartitions(text: String) throws {
        try MirrorBench.with { bench in
            try bench.set("/v/a/x", "1")
            try bench.apply(text)
            let mirror = try bench.mirror(try definition(text).name)
            let name = AbandonedTables.shadowName(mirror.id)
            let leave = "create table mirror.\"\(name)\" (k text, primary key (k)) partition by list (k)"
            let isLeft = "select to_regclass('mirror.\"\(name)\"') is not null"
            try bench.script(leave)
            _ = try bench.operators.rebuild(mirror)
            #expect(try bench.lines(isLeft) == ["f"])
            try bench.script(leave)
            try bench.operators.drop(mirror)
            #expect(try bench.lines(isLeft) == ["f"])
        }
    }

    /// Checks that a user-defined index on a partitioned table is recreated on its replacement.
    @Test func anIndexOfATableWithPartitions() throws {
        try MirrorBench.with { bench in
            try bench.set("/v/a/x", "1")
            try bench.apply(Self.plain)
            try bench.script(
                """
                drop table mirror.m;
                create table mirror.m (
                    k text collate "C" not null, x bigint, _seq bigint not null, _updated_at timestamptz, _misfits text[],
                    constraint m_pkey primary key (k)) partition by list (k);
                create table mirror.m_rest partition of mirror.m default;
                create index mine on mirror.m (x) where x > 0
                """)
            let outcome = try bench.operators.rebuild(try bench.mirror("m"))
            #expect(outcome.lost == [])
            #expect(
                try bench.lines("select indexdef from pg_indexes where indexname = 'mine'") == [
                    "CREATE INDEX mine ON mirror.m USING btree (x) WHERE (x > 0)"
                ])
            #expect(try bench.lines("select relkind from pg_class where oid = 'mirror.m'::regclass") == ["r"])
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that the view's name is shortened if the table's name has the maximum length.
    @Test func aTableWithALongName() throws {
        try MirrorBench.with { bench in
            let table = String(repeating: "x", count: 55)
            let text = { (column: String) in
                #"{"name": "h", "path": "/v/{k}", "table": "mirror.\#(table)_changes", "columns": {"x": "\#(column)"}, "keeps": "changes"}"#
            }
            #expect(try MirrorDefinition(stored: try definition(text("text")).json).mistake == nil)
            let views = "select viewname, length(viewname) from pg_views where schemaname = 'mirror'"
            try bench.set("/v/a/x", "1")
            try bench.apply(text("text"))
            let first = try bench.lines(views)
            #expect(first.count == 1 && first[0].hasPrefix("xxx") && first[0].hasSuffix("|63"), "\(first)")
            try bench.apply(text("bigint"))
            #expect(try bench.lines(views) == first)
            let name = first[0].split(separator: "|")[0]
            #expect(try bench.lines("select k, x, _current from mirror.\(name)") == ["a|1|t"])
            try bench.operators.drop(try bench.mirror("h"))
            #expect(try bench.lines(views) == [])
            try bench.applyAll(#"{"name": "m", "path": "/v/{k}", "table": "mirror.\#(table)", "history": true}"#)
            #expect(try bench.lines(views) == first)
        }
    }

    /// Checks that a user-defined view with the name of the versions view is kept.
    @Test func anotherViewOfThatName() throws {
        try MirrorBench.with { bench in
            try bench.set("/v/a/x", "1")
            try bench.apply(Self.history)
            try bench.script(
                "drop view mirror.m_versions; create view mirror.m_versions as select k from mirror.m_changes")
            let mirror = try bench.mirror("m_changes")
            let inTheWay = "\"mirror\".\"m_versions\" exists, and the mirror \"m_changes\" needs that name"
            let planning = refusal { _ = try bench.operators.plan(try definition(Self.history), namespace: "test") }
            #expect(planning.hasPrefix(inTheWay), "\(planning)")
            var isBuilt = false
            let rebuilding = refusal { _ = try bench.operators.rebuild(mirror, progress: { _ in isBuilt = true }) }
            #expect(!isBuilt)
            #expect(rebuilding.hasPrefix(inTheWay), "\(rebuilding)")
            let dropping = refusal { try bench.operators.drop(mirror) }
            #expect(dropping.contains("m_versions"), "\(dropping)")
            #expect(try bench.lines("select k from mirror.m_versions") == ["a"])
            try bench.script("drop view mirror.m_versions")
            _ = try bench.operators.rebuild(mirror)
            #expect(try bench.lines("select k, x from mirror.m_versions") == ["a|1"])
        }
    }

    /// Checks that a table with a foreign key reference is refused for replacement before another table is built.
    @Test(arguments: refersTo) func aTableToWhichAKeyRefers(text: String) throws {
        try MirrorBench.with { bench in
            try bench.set("/v/a/x", "1")
            try bench.apply(text)
            try bench.script("create table mirror.notes (k text collate \"C\" constraint of_m references mirror.m)")
            let mirror = try bench.mirror("m")
            var isBuilt = false
            let rebuilding = refusal { _ = try bench.operators.rebuild(mirror, progress: { _ in isBuilt = true }) }
            #expect(!isBuilt)
            #expect(rebuilding.hasPrefix("The foreign key of_m of mirror.notes refers to mirror.m"), "\(rebuilding)")
        }
    }
}
