import LogStore
import Mirrors
import Postgres
import TestSupport
import Testing
import Tree

/// Checks that each column holds the values in the tables of `ValueCase`, for each way in which rows are written. All
/// values are records of one namespace. A mirror with all types is filled by a text COPY, one without decimals by a
/// binary COPY, and a third exists before the values and follows the log. PostgreSQL writes the results as text.
@Suite struct ValueTests {
    static let types = ColumnType.allCases

    private func definition(_ name: String, _ types: [ColumnType]) -> String {
        let columns = types.map { type in
            "\"\(Self.column(type))\": {\"type\": \"\(type.rawValue)\", \"path\": \"x\"}"
        }
        return """
            {"name": "\(name)", "path": "/v/{k}", "keys": {"k": "bigint"}, "columns": {\(columns.joined(separator: ", "))}}
            """
    }

    private static func column(_ type: ColumnType) -> String {
        "c_" + type.rawValue.replacing(" ", with: "_").replacing("[]", with: "s")
    }

    private func check(_ bench: MirrorBench, _ mirror: String, _ types: [ColumnType]) throws {
        let columns = types.map { "\(Self.column($0))::text" }.joined(separator: ", ")
        let rows = try bench.rows("select k::text as key, _misfits::text, \(columns) from mirror.\(mirror) order by k")
        #expect(rows.count == ValueCase.all.count)
        var reasons: [String: String] = [:]
        for (error, _) in try bench.operators.conversionErrors(try bench.mirror(mirror), limit: 100_000) {
            reasons["\(error.record) \(error.column)"] = error.reason
        }
        for (index, value) in ValueCase.all.enumerated() {
            guard index < rows.count else { break }
            var conversionErrors: [String] = []
            for (offset, type) in types.enumerated() {
                let stored = rows[index][offset + 2]
                let reason = reasons.removeValue(forKey: "/v/\(index) \(Self.column(type))")
                #expect(reason == value.reason(type), "\(mirror): \(value) as \(type.rawValue)")
                if reason != nil { conversionErrors.append(Self.column(type)) }
                guard type != .jsonb, type != .textArray else { continue }
                #expect(stored == value.value(type), "\(mirror): \(value) as \(type.rawValue)")
            }
            #expect(rows[index][0] == "\(index)")
            #expect(
                rows[index][1] == (conversionErrors.isEmpty ? nil : "{\(conversionErrors.joined(separator: ","))}"),
                "\(mirror): \(value)"
            )
        }
        #expect(reasons.isEmpty, "\(mirror): errors without a value: \(reasons)")
        // Documents and arrays are compared as values, regardless of spelling.
        for (index, value) in ValueCase.all.enumerated() {
            for type in [ColumnType.jsonb, .textArray] where types.contains(type) {
                let wanted = value.value(type)
                let found = try bench.sql.execute(
                    "select \(Self.column(type)) is not distinct from $1::\(type.rawValue) from mirror.\(mirror) where k = $2",
                    [wanted.map { .text($0) } ?? .null(.text), .int8(Int64(index))])
                #expect(try found.bool(0, 0), "\(mirror): \(value) as \(type.rawValue), wanted \(wanted ?? "NULL")")
            }
        }
    }

    @Test func everyTypeTakesWhatItsTableSays() throws {
        try MirrorBench.with { bench in
            let binary = Self.types.filter { $0 != .numeric }
            try bench.apply(definition("followed", Self.types))
            for (index, value) in ValueCase.all.enumerated() {
                try bench.set("/v/\(index)", "{\"x\": \(value.json)}")
            }
            let outcome = try bench.apply(definition("copied", Self.types))
            #expect(outcome?.rows == ValueCase.all.count)
            let conversionErrors = ValueCase.all.map { value in Self.types.count { value.reason($0) != nil } }.reduce(
                0, +)
            #expect(outcome?.conversionErrors == conversionErrors)
            try bench.apply(definition("copied_binary", binary))
            try bench.following { _ in try bench.catchUp("followed", "copied", "copied_binary") }
            try check(bench, "copied", Self.types)
            try check(bench, "copied_binary", binary)
            try check(bench, "followed", Self.types)
            #expect(try bench.problems() == [])
        }
    }

    @Test func aPriorityIsNoPartOfALeafsValue() throws {
        try MirrorBench.with { bench in
            try bench.set(
                "/v/a", #"{"x": {".value": 7, ".priority": "p"}, "s": {"k": {".value": true, ".priority": 1}}}"#)
            try bench.apply(
                #"""
                {"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "j": {"type": "jsonb", "path": "x"}, "s": "text[]",
                 "p": {"type": "text", "path": "x/.priority"}, "q": {"type": "bigint", "path": "s/k/.priority"}, "own": {"type": "text", "path": ".priority"}}}
                """#)
            #expect(try bench.lines("select x, j, s, p, q, own from mirror.m") == ["7|7|{k}|p|1|"])
        }
    }

    /// Checks that two different keys never become the same primary key.
    @Test func keysAreStoredAsOneSpellingOnly() throws {
        try MirrorBench.with { bench in
            let numbers = ["0", "7", "-7", "007", "9223372036854775807", "9223372036854775808", "-0", "+7", "x"]
            let ids = ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "nothing"]
            for key in numbers { try bench.set("/n/\(key)", "1") }
            for key in ids { try bench.set("/u/\(key)", "1") }
            for key in ["a", "A", "a b", "é", "e\u{301}", "'\"\\", "🎈"] { try bench.set("/t/\(key)", "1") }
            try bench.apply(#"{"name": "n", "path": "/n/{k}", "keys": {"k": "bigint"}}"#)
            try bench.apply(#"{"name": "u", "path": "/u/{k}", "keys": {"k": "uuid"}}"#)
            try bench.apply(#"{"name": "t", "path": "/t/{k}"}"#)
            #expect(try bench.lines("select k from mirror.n order by k") == ["-7", "0", "7", "9223372036854775807"])
            #expect(try bench.lines("select k from mirror.u") == [ids[0]])
            #expect(try bench.lines("select k from mirror.t order by k").count == 7)
            #expect(
                try Set(bench.errors("n"))
                    == Set(
                        ["007", "9223372036854775808", "-0", "+7", "x"].map {
                            " of /n/\($0): the key k is not a bigint as PostgreSQL writes it"
                        }))
            #expect(try bench.errors("u").count == 2)
            #expect(try bench.errors("t") == [])
        }
    }

    /// Checks that days are the same for a role with another date style, in tables of every kind.
    @Test func keysThatAreDays() throws {
        try MirrorBench.with { bench in
            let database = try #require(try bench.rows("select current_database()").first?.first ?? nil)
            try bench.script("alter database \"\(database)\" set datestyle = 'German'")
            try bench.set("/d", #"{"2026-01-31": {"ada": 1, "bob": 2}, "2026-02-30": {"ada": 3}}"#)
            try bench.applyAll(
                #"{"name": "d", "path": "/d/{day}/{who}", "keys": {"day": {"type": "date", "comment": "When."}}, "deleted": "soft", "history": true, "columns": {"n": {"type": "bigint", "path": "."}}}"#
            )
            try bench.apply(#"{"name": "now", "path": "/d/{day}/{who}", "keys": {"day": "date"}}"#)
            try bench.following { _ in
                try bench.set("/d/2026-02-01/ada", "4")
                try bench.set("/d/2026-01-31/bob", "null")
                try bench.catchUp("d", "d_changes", "now")
            }
            let days = "select to_char(day, 'YYYY-MM-DD') || ' ' || who from"
            #expect(try bench.lines("\(days) mirror.now order by 1") == ["2026-01-31 ada", "2026-02-01 ada"])
            #expect(
                try bench.lines("\(days) mirror.d where day < date '2026-02-01' and _deleted_at is not null") == [
                    "2026-01-31 bob"
                ])
            #expect(try bench.lines("select count(*) from mirror.d_versions") == ["4"])
            #expect(
                try bench.errors("now") == [" of /d/2026-02-30/ada: the key day is not a date as PostgreSQL writes it"])
            #expect(try bench.problems() == [])
            // An extra row is found by its key.
            try bench.script("insert into mirror.now (day, who, _seq) values ('2000-12-24', 'x', 1)")
            let problems = try bench.problems()
            #expect(problems.count == 1)
            #expect(problems.first?.contains(#"row day "2000-12-24", who "x" should not be there"#) == true)
        }
    }
}
