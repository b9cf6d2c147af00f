import LogStore
import TestSupport
import Testing

@testable import Mirrors

/// Unique indexes: the tree has no such rule, so the second record waits, and gets its row when the first one's goes.
@Suite struct UniqueTests {
    private static let users =
        #"{"name": "m", "path": "/u/{k}", "columns": {"email": "text", "n": "bigint"}, "indexes": [{"columns": ["email"], "unique": true}]}"#
    private static let both = #"""
        {"name": "m", "path": "/u/{k}", "columns": {"email": "text", "n": "bigint"},
         "indexes": [{"columns": ["email"], "unique": true}, {"columns": ["n"], "unique": true}]}
        """#
    private static let reason = #"another row has the same "email", of which a unique index allows one"#

    private func rows(_ bench: MirrorBench) throws -> [String] {
        try bench.lines("select k, email, n from mirror.m order by k")
    }

    /// A rule of the test's, checked after each change: the table, the errors, and that verify finds nothing.
    private func expect(_ bench: MirrorBench, _ rows: [String], waiting: [String]) throws {
        try bench.catchUp("m")
        #expect(try self.rows(bench) == rows)
        #expect(
            try bench.errors("m").map { String($0.dropFirst(4).prefix { $0 != ":" }) } == waiting.map { "/u/\($0)" })
        #expect(try bench.problems() == [])
    }

    @Test func theSecondWaitsUntilTheFirstGoes() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.users)
            try bench.following { _ in
                try bench.set("/u/a", #"{"email": "x", "n": 1}"#)
                try bench.set("/u/b", #"{"email": "x", "n": 2}"#)
                try expect(bench, ["a|x|1"], waiting: ["b"])
                #expect(try bench.errors("m") == [" of /u/b: \(Self.reason)"])
                #expect(try bench.status("m").state == "running")
                // What it has by then is what its row has.
                try bench.set("/u/b/n", "3")
                try expect(bench, ["a|x|1"], waiting: ["b"])
                try bench.set("/u/a", "null")
                try expect(bench, ["b|x|3"], waiting: [])
                // By a changed value, too.
                try bench.set("/u/c", #"{"email": "x"}"#)
                try expect(bench, ["b|x|3"], waiting: ["c"])
                try bench.set("/u/b/email", #""y""#)
                try expect(bench, ["b|y|3", "c|x|"], waiting: [])
                // One that waits and goes is forgotten.
                try bench.set("/u/d", #"{"email": "x"}"#)
                try expect(bench, ["b|y|3", "c|x|"], waiting: ["d"])
                try bench.set("/u/d", "null")
                try bench.set("/u/c", "null")
                try expect(bench, ["b|y|3"], waiting: [])
                #expect(try bench.lines("select count(*) from pathmirror.mirror_waiting") == ["0"])
                #expect(try bench.lines("select count(*) from pathmirror.mirror_freed") == ["0"])
            }
        }
    }

    @Test func dbtTestsWhatIsUniqueByItself() throws {
        try MirrorBench.with { bench in
            try bench.apply(
                #"""
                {"name": "m", "path": "/u/{k}", "columns": {"email": "text", "n": "bigint", "o": "bigint"},
                 "indexes": [{"columns": ["email"], "unique": true}, {"columns": ["n", "o"], "unique": true}]}
                """#)
            let tests = DbtSources([try bench.mirror("m")]).yaml.split(separator: "\n").filter {
                $0.contains("data_tests")
            }
            #expect(
                tests.map { $0.drop { $0 == " " } } == [
                    "data_tests: [not_null, unique]", "data_tests: [unique]", "data_tests: [not_null]",
                ])
        }
    }

    @Test func valuesAreSwappedAndGoRound() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.users)
            try bench.following { _ in
                try bench.set("/u", #"{"a": {"email": "1"}, "b": {"email": "2"}, "c": {"email": "3"}}"#)
                try expect(bench, ["a|1|", "b|2|", "c|3|"], waiting: [])
                try bench.update("/u", [("a/email", #""2""#), ("b/email", #""1""#)])
                try expect(bench, ["a|2|", "b|1|", "c|3|"], waiting: [])
                try bench.update("/u", [("a/email", #""1""#), ("b/email", #""3""#), ("c/email", #""2""#)])
                try expect(bench, ["a|1|", "b|3|", "c|2|"], waiting: [])
                // A chain, one write after another: each takes what the next one has.
                try bench.set("/u/a/email", #""3""#)
                try expect(bench, ["b|3|", "c|2|"], waiting: ["a"])
                try bench.set("/u/b/email", #""2""#)
                try expect(bench, ["a|3|", "c|2|"], waiting: ["b"])
                try bench.set("/u/c/email", #""1""#)
                try expect(bench, ["a|3|", "b|2|", "c|1|"], waiting: [])
            }
        }
    }

    @Test func nothingIsNoValue() throws {
        try MirrorBench.with { bench in
            try bench.apply(
                #"{"name": "m", "path": "/u/{k}", "columns": {"email": "text", "n": "bigint"}, "indexes": [{"columns": ["email", "n"], "unique": true}]}"#
            )
            try bench.following { _ in
                try bench.set("/u", #"{"a": {"email": "x"}, "b": {"email": "x"}, "c": {"n": 1}, "d": {"n": 1}}"#)
                try expect(bench, ["a|x|", "b|x|", "c||1", "d||1"], waiting: [])
                try bench.update("/u", [("a/n", "1"), ("b/n", "1")])
                try bench.catchUp("m")
                #expect(try bench.lines("select count(*) from mirror.m where email = 'x'") == ["1"])
                #expect(try bench.problems() == [])
            }
        }
    }

    @Test func oneWaitsForOneAfterAnother() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.both)
            try bench.following { _ in
                try bench.set("/u/a", #"{"email": "x", "n": 1}"#)
                try bench.set("/u/b", #"{"email": "y", "n": 2}"#)
                try bench.set("/u/c", #"{"email": "x", "n": 2}"#)
                try bench.set("/u/d", #"{"email": "x", "n": 4}"#)
                try expect(bench, ["a|x|1", "b|y|2"], waiting: ["c", "d"])
                // c waits for b then, and leaves the value to d.
                try bench.set("/u/a", "null")
                try expect(bench, ["b|y|2", "d|x|4"], waiting: ["c"])
                try bench.set("/u/b", "null")
                try expect(bench, ["d|x|4"], waiting: ["c"])
                try bench.set("/u/d", "null")
                try expect(bench, ["c|x|2"], waiting: [])
            }
        }
    }

    @Test func aWholeCollectionIsReplaced() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.both)
            try bench.following { _ in
                try bench.set(
                    "/u", #"{"a": {"email": "x", "n": 1}, "b": {"email": "x", "n": 2}, "c": {"email": "z", "n": 1}}"#)
                try bench.catchUp("m")
                #expect(try bench.problems() == [])
                try bench.set("/u", #"{"c": {"email": "x", "n": 1}, "d": {"email": "w", "n": 2}}"#)
                try expect(bench, ["c|x|1", "d|w|2"], waiting: [])
                try bench.set("/", "null")
                try expect(bench, [], waiting: [])
                #expect(try bench.lines("select count(*) from pathmirror.mirror_waiting") == ["0"])
            }
        }
    }

    @Test func theTableIsFilledWithWhatFits() throws {
        try MirrorBench.with { bench in
            try bench.set("/u", #"{"a": {"email": "x"}, "b": {"email": "x"}, "c": {"email": "y"}}"#)
            let outcome = try bench.apply(Self.users)
            #expect(outcome?.rows == 2 && outcome?.misfits == 1)
            #expect(try bench.problems() == [])
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            #expect(try bench.problems() == [])
            #expect(try bench.operators.retryConversionErrors(try bench.mirror("m")).left == 1)
            _ = try bench.operators.applyAgain(try bench.mirror("m"), from: 1)
            #expect(try bench.problems() == [])
            let held = try #require(try bench.lines("select k from mirror.m where email = 'x'").first)
            try bench.following { _ in
                try bench.set("/u/\(held)", "null")
                let other = held == "a" ? "b" : "a"
                try expect(bench, ["\(other)|x|", "c|y|"].sorted(), waiting: [])
            }
        }
    }

    /// An index is added in place where all rows may stay; else the table is made anew without those that may not.
    @Test(arguments: [false, true]) func anIndexIsAddedToATable(isTwice: Bool) throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/u/{k}", "columns": {"email": "text", "n": "bigint"}}"#)
            try bench.set("/u", #"{"a": {"email": "x"}, "b": {"email": "\#(isTwice ? "x" : "y")"}}"#)
            try bench.following { _ in
                try bench.catchUp("m")
                let plan = try bench.operators.plan(try definition(Self.users), namespace: "test")
                #expect(plan.actionName == "alter")
                #expect((try bench.operators.execute(plan) != nil) == isTwice)
                try bench.set("/u/c", #"{"email": "x"}"#)
                try bench.catchUp("m")
                #expect(try bench.lines("select email from mirror.m order by 1") == (isTwice ? ["x"] : ["x", "y"]))
                #expect(try bench.problems() == [])
                // Without it, all of them have their rows.
                let without =
                    #"{"name": "m", "path": "/u/{k}", "columns": {"email": "text", "n": "bigint"}, "indexes": ["email"]}"#
                #expect(try bench.operators.plan(try definition(without), namespace: "test").actionName == "rebuild")
                try bench.apply(without)
                try expect(bench, ["a|x|", isTwice ? "b|x|" : "b|y|", "c|x|"], waiting: [])
            }
        }
    }

    /// A column gets another name while a record waits; its row has the new one.
    @Test func aColumnIsRenamedMeanwhile() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.users)
            try bench.following { _ in
                try bench.set("/u/a", #"{"email": "x", "n": 1}"#)
                try bench.set("/u/b", #"{"email": "x", "n": 2}"#)
                try bench.catchUp("m")
                let renamed =
                    #"{"name": "m", "path": "/u/{k}", "columns": {"mail": {"type": "text", "path": "email"}, "n": "bigint"}, "indexes": [{"columns": ["mail"], "unique": true}]}"#
                #expect(try bench.operators.plan(try definition(renamed), namespace: "test").actionName == "alter")
                try bench.apply(renamed)
                try bench.set("/u/a", "null")
                try bench.catchUp("m")
                #expect(try bench.lines("select k, mail, n from mirror.m") == ["b|x|2"])
                #expect(try bench.problems() == [])
            }
        }
    }

    @Test func verifySeesWhoWaitsInVain() throws {
        try MirrorBench.with { bench in
            try bench.set("/u", #"{"a": {"email": "x"}, "b": {"email": "x"}}"#)
            try bench.apply(Self.users)
            let held = try #require(try bench.lines("select k from mirror.m").first)
            let other = held == "a" ? "b" : "a"
            try bench.script("delete from mirror.m")
            #expect(
                try bench.problems().map { String($0.drop { $0 != "r" }) }.filter { $0.contains("waits") }.first?
                    .contains(
                        #"k "\#(other)" waits for values that no other row has"#) == true)
            try bench.script("delete from pathmirror.mirror_waiting")
            #expect(try bench.problems() != [])
        }
    }

    @Test(arguments: [
        ("", #"{"columns": ["x"], "unique": 1}"#, "should be true or false"),
        ("", #"{"columns": ["x"], "using": "gin", "unique": true}"#, "a gin index is for columns of jsonb"),
        ("", #"{"columns": ["t"], "using": "gin", "unique": true}"#, "a gin index can't be unique"),
        ("", #"{"columns": ["_seq"], "unique": true}"#, "_seq is no value of the record"),
        (#""deleted": "soft", "#, #"{"columns": ["x"], "unique": true}"#, #"leave "unique" or "deleted" out"#),
        (#""keeps": "versions", "#, #"{"columns": ["x"], "unique": true}"#, "a history has several rows"),
        ("", #""x", ["x"]"#, "this index is there twice"),
    ])
    func whatIsNoUniqueIndex(members: String, index: String, mistake: String) {
        let text =
            #"{"name": "m", "path": "/u/{k}", \#(members)"columns": {"x": "text", "t": "text[]"}, "indexes": [\#(index)]}"#
        do {
            _ = try MirrorDefinition.read(Array(text.utf8), source: "test")
            Issue.record("read")
        } catch {
            #expect("\(error)".contains(mistake), "\(error)")
        }
    }

    /// `a_b` beside `a` and `b`: names were the same once.
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
