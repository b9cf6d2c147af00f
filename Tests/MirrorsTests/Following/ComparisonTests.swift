import Mirrors
import TestSupport
import Testing

/// Tests of the differences that `log verify` finds in a mirror's table that was changed manually, and of those that it
/// ignores.
@Suite struct ComparisonTests {
    private static let mirror = #"""
        {"name": "m", "path": "/v/{j}/{k}", "columns": {"t": "text", "i": "bigint", "d": "double precision", "n": "numeric", "b": "boolean",
         "at": "timestamptz", "day": "date", "u": "uuid", "a": "text[]", "doc": "jsonb"}, "rest": "rest"}
        """#
    private static let record = #"""
        {"t": "x", "i": 1, "d": 0.5, "n": "1.50", "b": true, "at": 1000, "day": "2026-01-31", "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a": {"p": true}, "doc": {"x": 1, "y": 2}, "more": {"m": 1}}
        """#

    /// Checks the problems found after a statement on the table.
    @Test(
        arguments: [
            ("select 1", []),
            // Values that are equal in SQL.
            ("update mirror.m set n = 1.5000", []),
            (#"update mirror.m set doc = '{"y": 2, "x": 1.0}'"#, []),
            ("update mirror.m set at = '1970-01-01 01:00:01+01'", []),
            ("update mirror.m set _updated_at = null", []),
            ("update mirror.m set _seq = 1", []),
            ("update mirror.m set d = 0.50", []),
            ("update mirror.m set t = 'y' where j = '1' and k = 'a'", [#"row j "1", k "a": t differs"#]),
            ("update mirror.m set t = null where j = '1' and k = 'a'", [#"row j "1", k "a": t differs"#]),
            ("update mirror.m set i = 2, d = 0.75 where j = '1' and k = 'a'", [#"row j "1", k "a": i, d differ"#]),
            ("update mirror.m set n = 1.51 where k = 'b'", [#"row j "1", k "b": n differs"#]),
            ("update mirror.m set b = false where k = 'b'", [#"row j "1", k "b": b differs"#]),
            (
                "update mirror.m set at = at + interval '1 microsecond' where k = 'b'",
                [#"row j "1", k "b": at differs"#]
            ),
            ("update mirror.m set day = day + 1 where k = 'b'", [#"row j "1", k "b": day differs"#]),
            ("update mirror.m set u = gen_random_uuid() where k = 'b'", [#"row j "1", k "b": u differs"#]),
            ("update mirror.m set a = array['p', 'q'] where k = 'b'", [#"row j "1", k "b": a differs"#]),
            (#"update mirror.m set doc = '{}', rest = null where k = 'b'"#, [#"row j "1", k "b": doc, rest differ"#]),
            ("update mirror.m set _misfits = array['t'] where k = 'b'", [#"row j "1", k "b": _misfits differs"#]),
            ("update mirror.m set _seq = 99 where k = 'b'", [#"row j "1", k "b": _seq differs"#]),
            (
                "update mirror.m set k = 'z' where k = 'b'",
                [#"row j "1", k "b" is missing"#, #"row j "1", k "z" should not be there"#]
            ),
            ("delete from mirror.m where j = '1' and k = 'a'", [#"row j "1", k "a" is missing"#]),
            (
                "delete from mirror.m",
                [#"row j "1", k "a" is missing"#, #"row j "1", k "b" is missing"#, #"row j "2", k "a" is missing"#]
            ),
            ("insert into mirror.m (j, k, _seq) values ('9', 'é', 1)", [#"row j "9", k "é" should not be there"#]),
            (
                "alter table mirror.m drop constraint m_pkey; insert into mirror.m select * from mirror.m where k = 'b'",
                [#"row j "1", k "b" occurs twice"#]
            ),
            ("drop table mirror.m", ["its table mirror.m does not exist"]),
        ] as [(String, [String])])
    func aTableThatWasChanged(statement: String, differences: [String]) throws {
        try MirrorBench.with { bench in
            for path in ["1/a", "1/b", "2/a"] { try bench.set("/v/\(path)", Self.record) }
            try bench.apply(Self.mirror)
            try bench.script(statement)
            #expect(try bench.problems() == differences.map { "mirror m: \($0)" })
        }
    }

    @Test func aMissingColumnIsReportedAsPostgreSQLReportsIt() throws {
        try MirrorBench.with { bench in
            try bench.set("/v/1/a", Self.record)
            try bench.apply(Self.mirror)
            try bench.script("alter table mirror.m drop column t")
            let found = try bench.problems()
            #expect(
                found.count == 1 && found[0].hasPrefix("mirror m: its table mirror.m can't be compared: "), "\(found)")
        }
    }

    /// Checks that many differences are counted, and only some of them are shown.
    @Test func manyDifferencesAreCounted() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", "{\"1\": {\((0..<50).map { "\"k\($0)\": {\"i\": \($0)}" }.joined(separator: ", "))}}")
            try bench.apply(Self.mirror)
            try bench.script("update mirror.m set i = -1")
            let found = try bench.problems()
            #expect(found.count == 21)
            #expect(found.last == "mirror m: 50 differences in all")
        }
    }

    /// Checks a table with more rows than are compared at once.
    @Test func aLargeTable() throws {
        try MirrorBench.with { bench in
            try bench.set(
                "/v", "{\"1\": {\((0..<2_500).map { "\"k\($0)\": {\"i\": \($0)}" }.joined(separator: ", "))}}")
            try bench.apply(Self.mirror)
            #expect(try bench.problems() == [])
            try bench.script(
                "update mirror.m set i = -1 where k in ('k0', 'k1999'); delete from mirror.m where k = 'k2499'")
            #expect(
                try Set(bench.problems()) == [
                    #"mirror m: row j "1", k "k0": i differs"#, #"mirror m: row j "1", k "k1999": i differs"#,
                    #"mirror m: row j "1", k "k2499" is missing"#,
                ])
        }
    }

    /// Checks that records without a row and values with conversion errors are not reported as differences.
    @Test func whatIsRightlyNotThere() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}, "b": {"x": "t"}, "c": {"y": 1}, "d": 5}"#)
            try bench.apply(
                #"{"name": "skipping", "path": "/v/{k}", "columns": {"x": {"type": "bigint", "not null": "skip"}}}"#)
            try bench.apply(#"{"name": "plain", "path": "/v/{k}", "columns": {"x": "bigint"}, "rest": "rest"}"#)
            #expect(try bench.lines("select k from mirror.skipping") == ["a"])
            #expect(
                try bench.lines("select k, x, rest, _misfits from mirror.plain order by k") == [
                    "a|1||", #"b||{"x": "t"}|{x}"#, #"c||{"y": 1}|"#, "d||5|",
                ])
            #expect(try bench.problems() == [])
            try bench.script("insert into mirror.skipping (k, x, _seq) values ('c', 1, 1)")
            #expect(try bench.problems() == [#"mirror skipping: row k "c" should not be there"#])
        }
    }
}
