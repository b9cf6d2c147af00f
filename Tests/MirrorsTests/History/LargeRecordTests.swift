import Engine
import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of the cost of large records and wide entries for a history, and of records that are too large to be kept.
@Suite struct LargeRecordTests {
    private static let posts = #"""
        {"name": "posts", "path": "/posts/{id}", "deleted": "soft", "history": true, "columns": {"title": "text"}}
        """#

    /// Brings all mirrors to the head.
    private func follow(_ bench: MirrorBench, upTo maxRecordBytes: Int = StoredRecord.maxBytes) throws {
        let source = try LogConnection(bench.url)
        let target = try PostgresConnection(bench.url)
        defer {
            source.close()
            target.close()
        }
        var stepper = MirrorStepWriter(source: source, target: target, namespace: bench.namespace.id)
        stepper.maxRecordBytes = maxRecordBytes
        var mirrors: [ActiveMirror] = []
        for mirror in try bench.operators.mirrors() {
            mirrors.append(ActiveMirror(mirror, try #require(try MirrorCursor.of(mirror, target))))
        }
        while true {
            let step = try stepper.advance(&mirrors)
            if step.seq >= step.head { break }
        }
    }

    private func load(_ bench: MirrorBench, _ path: String, _ rows: [(String, Node)], bufferBytes: Int) throws {
        let log = try LogConnection(bench.url)
        defer { log.close() }
        let record = try #require(try log.namespace(named: "test"))
        var settings = Importer.Settings()
        settings.bufferBytes = bufferBytes
        let importer = try Importer(log, record, at: Path(splitting: path), settings: settings)
        for (path, value) in rows { try importer.add(Array(path.utf8), value) }
        try importer.finish()
    }

    /// Checks that a record that is too large has no row, however often it is changed, until it is written as a whole,
    /// and that the mirrors continue and report the error.
    @Test func tooLargeToKeep() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts/a", #"{"title": "A"}"#)
            try bench.applyAll(Self.posts)
            let names = ["posts", "posts_changes"]
            func look(
                _ now: [String], _ changes: [String], errors: Int, ofHistories: Int, line: Int = #line
            ) throws {
                try follow(bench, upTo: 200)
                #expect(
                    try bench.lines("select id, title, _seq, _deleted_at is null from mirror.posts order by id") == now,
                    "line \(line)")
                #expect(
                    try bench.lines("select id, _seq, _operation from mirror.posts_changes order by _seq, id")
                        == changes,
                    "line \(line)")
                #expect(
                    try bench.lines(
                        "select id, _seq, case when _deleted then 'delete' else 'x' end from mirror.posts_versions order by _seq, id"
                    )
                        == changes.map {
                            $0.replacing("insert", with: "x").replacing("update", with: "x")
                        }, "line \(line)")
                #expect(
                    try names.map { try bench.errors($0).count } == [errors, ofHistories], "line \(line)")
                #expect(try bench.problems() == [], "line \(line)")
            }
            let long = "\"" + String(repeating: "x", count: 300) + "\""
            try bench.set("/posts/a/text", long)
            try look(["a|A|2|f"], ["a|1|insert", "a|2|delete"], errors: 1, ofHistories: 1)
            // Writes to parts do not restore the record.
            try bench.set("/posts/a/title", #""B""#)
            try bench.set("/posts/a/text", "null")
            try look(["a|A|2|f"], ["a|1|insert", "a|2|delete"], errors: 1, ofHistories: 1)
            // A write above the record, and an import in parts.
            try bench.set("/posts", "{\"a\": {\"text\": \(long)}, \"b\": {\"title\": \"B\"}}")
            try look(["a|A|2|f", "b|B|5|t"], ["a|1|insert", "a|2|delete", "b|5|insert"], errors: 1, ofHistories: 2)
            let rows = (0..<50).map { ("/posts/c/k\($0)", Node.int(Int64($0))) } + [("/posts/d/title", .string("D"))]
            try load(bench, "/posts", rows, bufferBytes: 100)
            try look(
                ["a|A|2|f", "b|B|6|f", "d|D|6|t"],
                ["a|1|insert", "a|2|delete", "b|5|insert", "b|6|delete", "d|6|insert"], errors: 1, ofHistories: 3)
            try bench.set("/posts/c", #"{"title": "C"}"#)
            try bench.set("/posts/c/title", #""C2""#)
            try follow(bench, upTo: 200)
            #expect(
                try bench.lines("select id, title, _seq from mirror.posts order by id") == [
                    "a|A|2", "b|B|6", "c|C2|8", "d|D|6",
                ])
            // The table equals one without the failure. A history still lacks a version.
            #expect(try bench.errors("posts") == [])
            #expect(try bench.errors("posts_changes").count == 3)
            for name in names { _ = try bench.operators.rebuild(try bench.mirror(name)) }
            #expect(
                try bench.lines("select id, title, _seq from mirror.posts order by id") == [
                    "a|A|2", "b|B|6", "c|C2|8", "d|D|6",
                ])
            #expect(try bench.problems() == [])
        }
    }

    /// Counts changes to the versions of a mirror.
    private func count(_ bench: MirrorBench, _ level: String) throws {
        try bench.script(
            """
            create sequence public.counted;
            create function public.count() returns trigger language plpgsql as $$
            begin
                perform nextval('public.counted');
                return null;
            end
            $$;
            create trigger counting after insert or update on pathmirror.mirror_version for each \(level)
                execute function public.count();
            """)
    }

    private func counted(_ bench: MirrorBench) throws -> Int {
        Int(try bench.lines("select last_value from public.counted")[0]) ?? 0
    }

    /// Checks that an import in many parts does not write the whole record once per part.
    @Test func aRecordInManyParts() throws {
        try MirrorBench.with { bench in
            try bench.applyAll(#"{"name": "h", "path": "/h/{id}", "keeps": "changes", "columns": {"k7": "bigint"}}"#)
            try count(bench, "row")
            let rows = (0..<400).map { ("/h/a/k\($0)", Node.int(Int64($0))) }
            try load(bench, "/h", rows, bufferBytes: 500)
            let parts = try bench.lines("select parts from pathmirror.log")
            #expect(Int(parts[0]) ?? 0 >= 10)
            try follow(bench)
            #expect(try counted(bench) <= 2)
            #expect(try bench.lines("select id, k7, _seq from mirror.h_versions") == ["a|7|1"])
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that an entry with a few changes above the records does not need one statement for each of its other
    /// changes.
    @Test func oneRangeAmongManyRecords() throws {
        try MirrorBench.with { bench in
            try bench.applyAll(
                #"{"name": "h", "path": "/a/{j}/b/{k}", "keeps": "changes", "columns": {"x": "bigint"}}"#)
            let groups = (0..<60).map { "\"j\($0)\": {\"b\": {\"k\": {\"x\": \($0)}}}" }.joined(separator: ", ")
            try bench.set("/a", "{\(groups)}")
            try follow(bench)
            try count(bench, "statement")
            // Records, ranges that are emptied, ranges that are set.
            var changes = (0..<20).map { ("j\($0)/b/k/x", "100") }
            changes += (20..<40).map { ("j\($0)", "null") }
            changes += (40..<60).map { ("j\($0)/b", #"{"l": {"x": 5}}"#) }
            try bench.update("/a", changes)
            try follow(bench)
            // Two steps for one entry. Each statement counts as an insert and as an update.
            #expect(try counted(bench) <= 8)
            #expect(
                try bench.lines(
                    "select k, _deleted, count(*), sum(x) from mirror.h_versions where _current group by 1, 2 order by 1, 2"
                )
                    == ["k|f|20|2000", "k|t|40|", "l|f|20|100"])
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that values that are too long to share a statement are written in order.
    @Test func longValues() throws {
        try MirrorBench.with { bench in
            let text = { (letter: Character, count: Int) in "\"" + String(repeating: letter, count: count) + "\"" }
            try bench.applyAll(
                #"{"name": "h", "path": "/h/{id}", "history": true, "deleted": "soft", "columns": {"n": "bigint"}}"#
            )
            for number in 0..<12 {
                let sizes = [10, 40_000, 70_000, 3_000_000]
                let length = sizes[number % sizes.count]
                let letter: Character = number.isMultiple(of: 2) ? "x" : "é"
                try bench.set("/h/r\(number)", "{\"n\": \(number), \"text\": \(text(letter, length))}")
            }
            try bench.set("/h/r3/n", "33")
            try bench.set("/h/r1", "null")
            var all = (0..<12).filter { $0 != 5 }.map { "\"r\($0)\": {\"n\": 1, \"text\": \(text("y", 50_000))}" }
            all.append(#""s": {"n": 1}"#)
            try bench.set("/h", "{\(all.joined(separator: ", "))}")
            try follow(bench)
            #expect(
                try bench.lines(
                    "select id, _operation from mirror.h_changes where _seq = 15 and _operation <> 'update' order by id"
                ) == [
                    "r1|insert", "r5|delete", "s|insert",
                ])
            #expect(try bench.lines("select id, n from mirror.h_versions where _seq = 13") == ["r3|33"])
            #expect(try bench.problems() == [])
            for mirror in try bench.operators.mirrors() { _ = try bench.operators.rebuild(mirror) }
            #expect(
                try bench.lines("select count(*), count(*) filter (where _current) from mirror.h_versions") == ["27|13"]
            )
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a row with the wrong number of columns is an error.
    @Test func rowsOfTheWrongLength() throws {
        let mirror = try definition(
            #"{"name": "h", "path": "/h/{j}/{k}", "keeps": "changes", "columns": {"n": "bigint"}}"#)
        let table = MirrorTable(mirror, name: "h", label: "")
        #expect(throws: MirrorError.self) { _ = try RowEncoder.cells(table.columns, [[Cell.text("a"), .int(1)]]) }
    }
}
