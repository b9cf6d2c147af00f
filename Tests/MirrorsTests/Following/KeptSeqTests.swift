import LogStore
import Mirrors
import TestSupport
import Testing

/// Checks that `_seq` of a row never decreases when the row is written again, and that incremental readers see repaired
/// rows.
@Suite struct KeptSeqTests {
    private static let plain = #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}, "rest": "rest"}"#
    private let seqs = "select k, _seq from mirror.m order by k"

    /// Runs `body` with rows of which entry 3 has removed a field: the tree no longer shows this, but the row does.
    private func withRows(_ body: (MirrorBench) throws -> Void) throws {
        try MirrorBench.with { bench in
            try bench.set("/v/a", #"{"x": 1, "y": 1}"#)
            try bench.set("/v/b", #"{"x": 2}"#)
            try bench.apply(Self.plain)
            try bench.following { _ in
                try bench.set("/v/a/y", "null")
                try bench.catchUp("m")
                #expect(try bench.lines(seqs) == ["a|3", "b|2"])
                try body(bench)
                try bench.catchUp("m")
                #expect(try bench.problems() == [])
            }
        }
    }

    private let inOrder = "select count(*) filter (where _seq >= case k when 'a' then 3 else 2 end) from mirror.m"

    @Test func aRebuildDoesNotDecreaseIt() throws {
        try withRows { bench in
            let values = "select k, x, rest, _updated_at from mirror.m where k = 'b'"
            let before = try bench.lines(values)
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            #expect(try bench.lines(inOrder) == ["2"])
            #expect(try bench.lines(values) == before)
        }
    }

    @Test(arguments: [
        #"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint", "z": "text"}, "rest": "rest"}"#,
        #"{"name": "m", "path": "/v/{k}", "columns": {"x": "text"}, "rest": "rest"}"#,
        #"{"name": "m", "path": "/v/{k}", "columns": {"n": {"type": "bigint", "path": "x"}, "z": "text"}}"#,
    ]) func anotherDefinitionDoesNotDecreaseIt(text: String) throws {
        try withRows { bench in
            try bench.apply(text)
            #expect(try bench.lines(inOrder) == ["2"])
        }
    }

    /// Checks a mirror that is dropped and applied again, as before and after a move of its namespace.
    @Test func aMirrorThatIsAppliedAgainDoesNotDecreaseIt() throws {
        try withRows { bench in
            try bench.operators.drop(try bench.mirror("m"))
            try bench.apply(Self.plain)
            #expect(try bench.lines(inOrder) == ["2"])
        }
    }

    /// Checks a mirror that keeps removed rows.
    @Test(arguments: [false, true]) func aSoftTableThatIsAppliedAgainDoesNotDecreaseIt(wasSoft: Bool) throws {
        try withRows { bench in
            let soft = Self.plain.replacing(#""path""#, with: #""deleted": "soft", "path""#)
            if wasSoft {
                try bench.operators.drop(try bench.mirror("m"))
                try bench.apply(soft)
                try bench.set("/v/a/z", "1")
                try bench.set("/v/a/z", "null")
                try bench.catchUp("m")
                #expect(try bench.lines("select _seq from mirror.m where k = 'a'") == ["5"])
                try bench.operators.drop(try bench.mirror("m"))
            }
            let head = try bench.set("/elsewhere", "1")
            try bench.apply(soft)
            #expect(try bench.lines("select k, _seq from mirror.m order by k") == ["a|\(head)", "b|\(head)"])
        }
    }

    /// Checks rows changed by a rebuild: while the new table is built, readers of the old one see later entries.
    @Test(arguments: ["", "alter table mirror.m add column mine int; alter table mirror.m alter column x type numeric"])
    func whatARebuildRepairsIsNewToReaders(change: String) throws {
        try withRows { bench in
            try bench.set("/v/c", #"{"x": 3}"#)
            try bench.set("/v/d", #"{"x": 4}"#)
            try bench.catchUp("m")
            try bench.script(
                "update mirror.m set rest = '{}' where k = 'b'; delete from mirror.m where k = 'c'; \(change)")
            var seen: Int64 = 0
            _ = try bench.operators.rebuild(try bench.mirror("m")) { progress in
                guard case .verifying = progress, seen == 0 else { return }
                seen = (try? bench.set("/v/d/x", "5")) ?? -1
                try? bench.catchUp("m")
            }
            #expect(seen > 0)
            try bench.catchUp("m")
            let rows = "select k, x, rest, _seq >= \(seen) from mirror.m order by k"
            #expect(try bench.lines(rows) == ["a|1||f", "b|2||t", "c|3||t", "d|5||t"])
            #expect(try bench.lines("select _seq from mirror.m where k = 'd'") == ["\(seen)"])
            #expect(try bench.lines("select indexname from pg_indexes where schemaname = 'mirror'") == ["m_pkey"])
        }
    }

    @Test func aTableThatLacksAColumnIsRebuilt() throws {
        try withRows { bench in
            try bench.script("alter table mirror.m drop column x")
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            #expect(try bench.lines(inOrder) == ["2"])
        }
    }

    @Test func entriesThatAreAppliedAgainDoNotDecreaseIt() throws {
        try withRows { bench in
            try bench.script("update mirror.m set x = 99 where k = 'a'")
            var seen = try bench.set("/elsewhere", "1")
            for first in 1...seen {
                // Rows may have been read at the head, so the repair must use the same entry or a later one.
                try bench.catchUp("m")
                _ = try bench.operators.applyAgain(try bench.mirror("m"), from: first)
                if first <= 3 {
                    #expect(try bench.lines("select x, _seq >= \(seen) from mirror.m where k = 'a'") == ["1|t"])
                }
                #expect(try bench.lines("select count(*) from mirror.m where _seq > \(seen)") == ["0"])
                seen = try bench.set("/elsewhere", "\(first + 1)")
            }
        }
    }
}
