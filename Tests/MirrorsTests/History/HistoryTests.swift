import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of tables that keep earlier states of records: the effect of each kind of entry, and the data that survives a
/// rebuild.
@Suite struct HistoryTests {
    private static let posts = #"""
        {"name": "posts", "path": "/posts/{id}", "history": true, "columns": {"title": "text", "stars": "bigint"}}
        """#
    private static let changes =
        "select id, _seq, _operation, _via, _old, _new from mirror.posts_changes order by _seq, id"
    private static let versions =
        "select id, title, stars, _seq, _current, _deleted, _valid_to is null from mirror.posts_versions order by id, _seq"

    /// Checks the rows that histories gain after each of a series of writes.
    @Test func whatEntriesDo() throws {
        try MirrorBench.with { bench in
            try bench.applyAll(Self.posts)
            try bench.following { _ in
                var seen: Set<[String?]> = []
                func after(_ seq: Int64, _ lines: [String]) throws {
                    try bench.catchUp("posts_changes")
                    let rows = try bench.rows(Self.changes)
                    let new = rows.filter { !seen.contains($0) }.map { $0.map { $0 ?? "" }.joined(separator: "|") }
                    #expect(new == lines.map { $0.replacing("@", with: "|\(seq)|") }, "after seq \(seq)")
                    seen.formUnion(rows)
                }
                let one = #"{"stars": 1, "title": "A"}"#
                try after(try bench.set("/posts/a", #"{"title": "A", "stars": 1}"#), ["a@insert|||\(one)"])
                // A write that changes no column adds no row, and neither does an unchanged value.
                try after(try bench.set("/posts/a/text", #""x""#), [])
                try after(try bench.set("/posts/a/title", #""A""#), [])
                let two = #"{"stars": 2, "title": "A"}"#
                try after(
                    try bench.update("/posts", [("a/stars", "2"), ("b/title", #""B""#)]),
                    [
                        "a@update||\(one)|\(two)",
                        #"b@insert|||{"stars": null, "title": "B"}"#,
                    ])
                try after(try bench.set("/posts/a/.priority", "5"), [])
                try after(
                    try bench.increment("/posts/a/stars", by: 1),
                    [
                        #"a@update||\#(two)|{"stars": 3, "title": "A"}"#
                    ])
                // Removals of the last part of a record, of a record, and above the records.
                try after(
                    try bench.set("/posts/b/title", "null"), [#"b@delete||{"stars": null, "title": "B"}|"#])
                try after(
                    try bench.set("/posts/b", #"{"title": "B2"}"#), [#"b@insert|||{"stars": null, "title": "B2"}"#])
                try after(
                    try bench.set("/posts", #"{"b": {"title": "B2"}, "c": 7}"#),
                    [
                        #"a@delete||{"stars": 3, "title": "A"}|"#,
                        #"c@insert|||{"stars": null, "title": null}"#,
                    ])
                try after(
                    try bench.set("/", "null"),
                    [
                        #"b@delete||{"stars": null, "title": "B2"}|"#,
                        #"c@delete||{"stars": null, "title": null}|"#,
                    ])
                try after(try bench.set("/posts/b/stars", "9"), [#"b@insert|||{"stars": 9, "title": null}"#])
            }
            #expect(
                try bench.lines(Self.versions) == [
                    "a|A|1|1|f|f|f", "a|A|2|4|f|f|f", "a|A|3|6|f|f|f", "a|||9|t|t|t",
                    "b|B||4|f|f|f", "b|||7|f|t|f", "b|B2||8|f|f|f", "b|||10|f|t|f", "b||9|11|t|f|t",
                    "c|||9|f|f|f", "c|||10|t|t|t",
                ])
            #expect(
                try bench.lines(
                    """
                    select count(*) from (
                        select _valid_to is distinct from lead(_valid_from) over (partition by id order by _seq) as is_wrong
                        from mirror.posts_versions) as versions where is_wrong
                    """) == ["0"])
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a history filled from the log equals one that followed it, and that added columns are filled as
    /// well.
    @Test func theLogFillsAHistory() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts/a", #"{"title": "A", "stars": 1}"#)
            try bench.set("/posts/a/stars", "2")
            try bench.set("/posts", #"{"b": {"title": "B", "by": "ada"}}"#)
            try bench.set("/posts/b/by", #""bob""#)
            let outcomes = try bench.applyAll(Self.posts)
            #expect(outcomes.map { $0?.begins?.seq } == [nil, 1])
            #expect(outcomes.map { $0?.rows } == [1, 4])
            let before = try bench.lines(Self.versions)
            #expect(before == ["a|A|1|1|f|f|f", "a|A|2|2|f|f|f", "a|||3|t|t|t", "b|B||3|t|f|t"])
            let more = Self.posts.replacing(#""stars": "bigint"}"#, with: #""stars": "bigint", "by": "text"}"#)
            try bench.applyAll(more)
            #expect(
                try bench.lines("select id, title, by, _seq, _current from mirror.posts_versions order by id, _seq")
                    == ["a|A||1|f", "a|A||2|f", "a|||3|t", "b|B|ada|3|f", "b|B|bob|4|t"])
            #expect(
                try bench.lines("select _new from mirror.posts_changes where _seq = 4")
                    == [#"{"by": "bob", "stars": null, "title": "B"}"#])
            #expect(try bench.problems() == [])
            // The first columns again.
            try bench.applyAll(Self.posts)
            #expect(try bench.lines(Self.versions) == before)
        }
    }

    /// Checks that an import records no change for equal content.
    @Test(arguments: [nil, 3])
    func anImportIsOneStep(rowsPerChunk: Int?) throws {
        try MirrorBench.with { bench in
            try bench.set("/posts", #"{"a": {"title": "A", ".priority": 4}, "b": {"title": "B"}, "c": 1}"#)
            try bench.applyAll(Self.posts)
            try bench.following { _ in
                let log = try LogConnection(bench.url)
                defer { log.close() }
                let record = try #require(try log.namespace(named: "test"))
                var settings = Importer.Settings()
                if let rowsPerChunk { settings.rowsPerChunk = rowsPerChunk }
                let importer = try Importer(log, record, at: Path(splitting: "/posts"), settings: settings)
                for (path, value) in [
                    ("/posts/a/title", Node.string("A")), ("/posts/b/title", .string("B2")),
                    ("/posts/d/title", .string("D")),
                    ("/posts/a/.priority", .int(4)),
                ] {
                    try importer.add(Array(path.utf8), value)
                }
                try importer.finish()
                try bench.catchUp("posts_changes")
            }
            let last = try bench.lines(
                "select id, _operation from mirror.posts_changes where _seq > 1 order by id, _seq")
            if rowsPerChunk == nil {
                #expect(last == ["b|update", "c|delete", "d|insert"])
            } else {
                #expect(last.contains("c|delete") && last.contains("d|insert"))
            }
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a row remains when its record is removed, and belongs to the record again when the record returns.
    @Test func removedRowsStay() throws {
        try MirrorBench.with { bench in
            let text = #"""
                {"name": "posts", "path": "/posts/{id}", "columns": {"title": {"type": "text", "not null": "skip"}}}
                """#
            let soft = text.replacing(#""columns""#, with: #""deleted": "soft", "columns""#)
            let look =
                "select id, title, _seq, _deleted_at is null, _updated_at = _deleted_at from mirror.posts order by id"
            try bench.set("/posts", #"{"a": {"title": "A"}, "b": {"title": "B"}}"#)
            try bench.apply(text)
            // Converts a mirror that removed its rows.
            try bench.apply(soft)
            try bench.following { _ in
                try bench.set("/posts/a", "null")
                try bench.catchUp("posts")
                #expect(try bench.lines(look) == ["a|A|2|f|t", "b|B|1|t|"])
                // A record that no longer gives a row counts as removed.
                try bench.set("/posts/b/title", "null")
                try bench.set("/posts/b/other", "1")
                try bench.set("/posts/b/other", "2")
                try bench.catchUp("posts")
                #expect(try bench.lines(look) == ["a|A|2|f|t", "b|B|3|f|t"])
                try bench.set("/posts/a/title", #""A2""#)
                try bench.set("/posts/c/title", #""C""#)
                try bench.set("/posts/c", "null")
                try bench.catchUp("posts")
                #expect(try bench.lines(look) == ["a|A2|6|t|", "b|B|3|f|t", "c|C|8|f|t"])
            }
            #expect(try bench.problems() == [])
            // An added column is filled from the stored records.
            try bench.apply(soft.replacing(#""skip"}}"#, with: #""skip"}, "other": "bigint"}"#))
            #expect(try bench.lines(look) == ["a|A2|6|t|", "b|B|3|f|t", "c|C|8|f|t"])
            #expect(try bench.problems() == [])
            #expect(
                try bench.lines(
                    "select max(n) <= 3 from (select count(*) as n from pathmirror.mirror_version group by key) as v")
                    == ["t"])
            // Converts back to a table of present records only.
            try bench.apply(text)
            #expect(try bench.lines("select id, title from mirror.posts order by id") == ["a|A2"])
            #expect(try bench.lines("select count(*) from pathmirror.mirror_version") == ["0"])
        }
    }

    /// Checks that a row that remains keeps its errors until its record has a row again.
    @Test func theErrorsOfRemovedRowsStay() throws {
        try MirrorBench.with { bench in
            try bench.apply(
                #"""
                {"name": "posts", "path": "/posts/{id}", "deleted": "soft",
                 "columns": {"title": {"type": "text", "not null": "skip"}, "stars": "bigint", "size": "bigint"}}
                """#)
            let look =
                "select record, column_name, value from pathmirror.mirror_error where column_name <> 'title' order by 1, 2"
            try bench.following { _ in
                func expect(_ errors: [String], after path: String, _ value: String) throws {
                    try bench.set(path, value)
                    try bench.catchUp("posts")
                    #expect(try bench.lines(look) == errors, "after \(path) = \(value)")
                }
                let both = [#"/posts/a|size|"big""#, #"/posts/a|stars|"many""#]
                try expect(both, after: "/posts/a", #"{"title": "A", "stars": "many", "size": "big"}"#)
                try expect(both, after: "/posts/a/title", "null")
                try expect(both, after: "/posts/a/other", "1")
                try expect(both, after: "/posts/a/stars", "5")
                try expect(both, after: "/posts/a", "null")
                try expect(both, after: "/posts/a/other", "2")
                // As a range, and among records that never had a row.
                try expect(both, after: "/posts", #"{"a": {"other": 3}, "b": {"other": 4}}"#)
                try expect(both, after: "/posts/b/other", "5")
                try expect([], after: "/posts/a/title", #""A2""#)
                try expect([], after: "/posts/a/title", "null")
                try expect([], after: "/posts/a/other", "6")
            }
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a history created after the log was pruned starts with the oldest retained tree.
    @Test func aPrunedLog() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts", #"{"a": {"title": "A"}, "b": {"title": "B"}}"#)
            try bench.set("/posts/a/title", #""A2""#)
            try bench.set("/posts/b", "null")
            try bench.set("/posts/c/title", #""C""#)
            try prune(bench, keeping: 2)
            let outcomes = try bench.applyAll(Self.posts)
            #expect(outcomes.map { $0?.begins?.seq } == [nil, 3])
            #expect(
                try bench.lines(
                    "select id, _seq, _operation, _uid, _at is null from mirror.posts_changes order by _seq, id")
                    == ["a|2|begin||f", "b|2|begin||f", "b|3|delete||f", "c|4|insert||f"])
            #expect(
                try bench.lines(Self.versions) == ["a|A2||2|t|f|t", "b|B||2|f|f|f", "b|||3|t|t|t", "c|C||4|t|f|t"])
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a history whose next entries were pruned continues with the differences to the present tree.
    @Test func theLogWasPrunedPastIt() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts", #"{"a": {"title": "A"}, "b": {"title": "B"}}"#)
            try bench.applyAll(Self.posts)
            try bench.set("/posts/a/title", #""A2""#)
            try bench.set("/posts/b", "null")
            try bench.set("/posts/c/title", #""C""#)
            try prune(bench, keeping: 1)
            _ = try bench.operators.rebuild(try bench.mirror("posts_changes"))
            _ = try bench.operators.rebuild(try bench.mirror("posts"))
            #expect(
                try bench.lines("select id, _seq, _operation from mirror.posts_changes order by _seq, id")
                    == ["a|1|insert", "b|1|insert", "a|3|begin", "b|3|delete", "c|4|insert"])
            #expect(
                try bench.lines(Self.versions)
                    == ["a|A||1|f|f|f", "a|A2||3|t|f|t", "b|B||1|f|f|f", "b|||3|t|t|t", "c|C||4|t|f|t"])
            #expect(try bench.problems() == [])
        }
    }

    private func prune(_ bench: MirrorBench, keeping count: Int64) throws {
        let log = try LogConnection(bench.url)
        defer { log.close() }
        let record = try #require(try log.namespace(named: "test"))
        let pruning = Pruning(log, record)
        try pruning.run(try pruning.plan(.entries(count), force: true))
    }

    /// Checks that the next build removes all traces of a killed build, and that a history continues if it was being
    /// filled.
    @Test func interruptedBuilds() throws {
        try MirrorBench.with { bench in
            for number in 0..<20 { try bench.set("/posts/k\(number % 3)/stars", "\(number)") }
            let plan = try bench.operators.plan(
                try definition(
                    #"{"name": "h", "path": "/posts/{id}", "keeps": "changes", "columns": {"stars": "bigint"}}"#),
                namespace: "test")
            let killer = try PostgresConnection(bench.url)
            defer { killer.close() }
            let kill = {
                _ = try? killer.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pathmirror mirror build' and datname = current_database()"
                )
            }
            #expect(throws: MirrorError.self) {
                _ = try bench.operators.execute(plan) { if case .indexing = $0 { kill() } }
            }
            #expect(try bench.lines("select count(*) from pathmirror.mirror_version") == ["0"])
            let again = try bench.operators.plan(plan.definition, namespace: "test")
            #expect(again.actionName == "create")
            // The table exists once the build starts to follow the log.
            #expect(throws: MirrorError.self) {
                _ = try bench.operators.execute(again) { if case .catchingUp = $0 { kill() } }
                _ = try bench.operators.rebuild(try bench.mirror("none"))
            }
            #expect(try bench.operators.plan(plan.definition, namespace: "test").actionName == "unchanged")
            try bench.following { _ in try bench.catchUp("h") }
            #expect(try bench.lines("select count(*), max(_seq) from mirror.h") == ["20|20"])
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a history that was paused for long continues entry by entry from its position, while other mirrors
    /// are at the head.
    @Test func aLongPause() throws {
        try MirrorBench.with { bench in
            try bench.applyAll(Self.posts)
            try bench.following({ $0.entriesAtOnce = 7 }) { _ in
                try bench.operators.setPaused(try bench.mirror("posts_changes"), true)
                for number in 0..<100 { try bench.set("/posts/k\(number % 3)/stars", "\(number)") }
                try bench.set("/posts", "null")
                try bench.catchUp("posts")
                try bench.operators.setPaused(try bench.mirror("posts_changes"), false)
                try bench.set("/posts/k/stars", "1")
                try bench.catchUp("posts_changes", "posts")
            }
            #expect(try bench.lines("select count(*) from mirror.posts_changes") == ["104"])
            #expect(try bench.lines("select count(*) from mirror.posts_versions") == ["104"])
            #expect(try bench.problems() == [])
        }
    }

    /// Checks the refusal of another path, another kind, and a repeated application of entries.
    @Test func whatIsRefused() throws {
        try MirrorBench.with { bench in
            try bench.applyAll(Self.posts)
            let changes =
                #"{"name": "posts_changes", "path": "/posts/{id}", "keeps": "changes", "table": "mirror.posts_changes"}"#
            for (text, reason) in [
                (changes.replacing("/posts/{id}", with: "/other/{id}"), "The path of \"posts_changes\" can't change"),
                (
                    changes.replacing(#""keeps": "changes", "#, with: ""),
                    "can't change from a history to a mirror of the current records"
                ),
                (
                    #"{"name": "posts", "path": "/posts/{id}", "keeps": "changes"}"#,
                    "can't change from a mirror of the current records to a history"
                ),
                (changes.replacing(#""keeps""#, with: #""keys": {"id": "bigint"}, "keeps""#), "The types of the keys"),
            ] {
                let refusal = #expect(throws: MirrorError.self) { try bench.apply(text) }
                #expect("\(try #require(refusal))".contains(reason), "\(String(describing: refusal))")
            }
            let mirror = try bench.mirror("posts_changes")
            #expect(throws: MirrorError.self) { _ = try bench.operators.applyAgain(mirror, from: 1) }
            #expect(throws: MirrorError.self) { _ = try bench.operators.retryConversionErrors(mirror) }
            try bench.operators.drop(mirror)
            #expect(try bench.lines("select count(*) from pathmirror.mirror_version") == ["0"])
            #expect(try bench.lines("select to_regclass('mirror.posts_versions') is null") == ["t"])
        }
    }

    /// Checks that a row that the table cannot hold is omitted and recorded, and that the history continues.
    @Test func aRowThatIsRefused() throws {
        try MirrorBench.with { bench in
            let text =
                #"{"name": "posts", "path": "/posts/{id}", "keeps": "changes", "table": "mirror.posts", "columns": {"title": "text"}}"#
            let long =
                "\"" + String(repeating: "x\u{3b1}7q", count: 200_000)
                + String((0..<3_000).map { _ in Character(UnicodeScalar(UInt8.random(in: 97...122))) }) + "\""
            try bench.set("/posts/a/title", #""A""#)
            try bench.apply(text)
            try bench.script("create index on mirror.posts ((_new ->> 'title'))")
            try bench.following { _ in
                try bench.set("/posts/a/title", long)
                try bench.set("/posts/a/title", #""A3""#)
                try bench.set("/posts/b/title", #""B""#)
                try bench.catchUp("posts")
            }
            let wanted = ["a|A|1|f", "a|A3|3|t", "b|B|4|t"]
            let look = "select id, title, _seq, _current from mirror.posts_versions order by id, _seq"
            #expect(try bench.lines(look) == wanted)
            #expect(try bench.errors("posts").count == 1)
            #expect(try bench.problems() == [])
            _ = try bench.operators.rebuild(try bench.mirror("posts"))
            #expect(try bench.lines(look) == wanted)
            #expect(try bench.errors("posts").count == 1)
            #expect(try bench.problems() == [])
        }
    }

    private static func column(_ type: ColumnType) -> String {
        type.rawValue.replacing("[]", with: "s").replacing(" ", with: "_")
    }

    /// Checks that the old and new rows equal `to_jsonb` of the row of a mirror with the same columns.
    @Test func rowsAsJSON() throws {
        try MirrorBench.with { bench in
            let columns = ColumnType.allCases.map {
                "\"\(Self.column($0))\": {\"type\": \"\($0.rawValue)\", \"path\": \"v\"}"
            }
            let text =
                "{\"name\": \"all\", \"path\": \"/all/{id}\", \"history\": true, \"rest\": \"rest\", \"columns\": {\(columns.joined(separator: ", "))}}"
            let values = [
                "1", "1.5", "-0.0", "1e300", "5e-324", "123456789012345678", "true", "\"text \\\" \\\\ é\"",
                "\"+007.50\"", "\"1e5\"",
                "\"2026-01-31\"", "\"2026-01-31T23:59:59.120Z\"", "\"0001-01-01T00:00:00.000001Z\"", "-62135596800000",
                "\"0E0E0E0E-1111-2222-3333-444444444444\"", #"{"a": true, "b": false}"#, #"["x", "y\""]"#,
                #"{"x": [1, {"y": null, "z": "\u0000"}]}"#,
            ]
            for (index, value) in values.enumerated() { try bench.set("/all/k\(index)", "{\"v\": \(value), \"w\": 1}") }
            try bench.applyAll(text)
            let names = ColumnType.allCases.map { Self.column($0) } + ["rest"]
            let row = names.map { "live.\(quotedIdentifier($0))" }.joined(separator: ", ")
            #expect(
                try bench.rows(
                    """
                    select id, _new, wanted from mirror.all_changes join (
                        select id, to_jsonb(picked) as wanted from mirror.all as live, lateral (select \(row)) as picked) as live using (id)
                    where _new is distinct from wanted
                    """) == [])
            #expect(try bench.lines("select count(*) from mirror.all_changes") == ["\(values.count)"])
            // The versions view has the columns with their types.
            let own = names.map { "version.\(quotedIdentifier($0))" }.joined(separator: ", ")
            #expect(
                try bench.rows(
                    """
                    select id from mirror.all_versions as version join mirror.all as live using (id)
                    where row(\(own)) is distinct from row(\(row)) or not _current or _deleted
                    """) == [])
            let types = """
                select attname, atttypid::regtype from pg_attribute
                where attrelid = 'mirror.TABLE'::regclass and attnum > 0 and attname !~ '^_' order by 1
                """
            #expect(
                try bench.lines(types.replacing("TABLE", with: "all_versions"))
                    == bench.lines(types.replacing("TABLE", with: "all")))
        }
    }

    /// Checks that privileges on the view, and views that read it, survive a rebuild of the table, and that a dropped
    /// view is recreated.
    @Test func theViewStays() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts/a/title", #""A""#)
            try bench.applyAll(Self.posts)
            let name = "view_reader_\(UInt32.random(in: 0...UInt32.max))"
            try bench.script("create role \(name)")
            defer { try? bench.script("drop owned by \(name); drop role \(name)") }
            try bench.script(
                """
                grant select on mirror.posts_versions to \(name);
                create view mirror.now as select id, title from mirror.posts_versions where _current;
                """)
            let mayRead = "select has_table_privilege('\(name)', 'mirror.posts_versions', 'select')"
            let more = Self.posts.replacing(#""columns": {"#, with: #""columns": {"by": "text", "#)
            try bench.applyAll(more)
            #expect(try bench.lines(mayRead) == ["t"])
            #expect(try bench.lines("select id, title from mirror.now") == ["a|A"])
            #expect(try bench.lines("select id, title, by from mirror.posts_versions") == ["a|A|"])
            let refusal = #expect(throws: MirrorError.self) {
                try bench.operators.drop(try bench.mirror("posts_changes"))
            }
            #expect("\(try #require(refusal))".hasPrefix("The view mirror.now reads"), "\(String(describing: refusal))")
            try bench.script("drop view mirror.now; drop view mirror.posts_versions")
            let plan = try bench.operators.plan(
                try #require(try MirrorDefinition.read(Array(more.utf8), source: "test").last), namespace: "test")
            #expect(plan.actionName == "rebuild" && plan.reasons == ["the view of versions is missing"])
            _ = try bench.operators.execute(plan)
            #expect(try bench.lines("select id, title, by from mirror.posts_versions") == ["a|A|"])
            #expect(try bench.problems() == [])
        }
    }
}
