import LogStore
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Checks that histories compare bytes: some texts are equal for Unicode or contain characters that include a slash.
@Suite struct KeysAndTextsTests {
    @Test(
        arguments: [
            ["a", "b"], ["a", "\u{301}x"], ["a\u{600}", "b"], ["\u{200D}", "\u{FE0F}"], ["\u{600}", "\u{301}"],
            ["é", "e\u{301}"], ["a"],
        ])
    func keysOfARecord(texts: [String]) {
        let keys = texts.map { Key($0) }
        #expect(RecordKey.keys(RecordKey.text(keys)) == keys)
    }

    /// Checks keys that begin with a combining mark, or end with a character that joins the next one.
    @Test func marksBesideSlashes() throws {
        try MirrorBench.with { bench in
            try bench.set("/rooms/r0/\u{301}m", #"{"a": 0}"#)
            try bench.applyAll(
                #"{"name": "m", "path": "/rooms/{r}/{m}", "deleted": "soft", "history": true, "columns": {"a": "bigint"}}"#
            )
            try bench.following { _ in
                try bench.set("/rooms/r1", #"{"\u0301x": {"a": 1}, "\u200d": {"a": 2}}"#)
                try bench.set("/rooms/\u{600}", #"{"x": {"a": 3}, "\u0301": {"a": 4}}"#)
                try bench.set("/rooms/\u{600}/\u{301}/a", "5")
                try bench.set("/rooms/r1", "null")
                try bench.catchUp("m", "m_changes")
            }
            let rows = try bench.rows("select r, m, a, _seq from mirror.m_versions where not _deleted order by _seq, a")
            #expect(
                rows.map { $0.map { Key($0 ?? "") } }
                    == [
                        ["r0", "\u{301}m", "0", "1"], ["r1", "\u{301}x", "1", "2"], ["r1", "\u{200D}", "2", "2"],
                        ["\u{600}", "x", "3", "3"], ["\u{600}", "\u{301}", "4", "3"], ["\u{600}", "\u{301}", "5", "4"],
                    ].map { $0.map { Key($0) } })
            #expect(try bench.lines("select count(*) from mirror.m where _deleted_at is not null") == ["2"])
            #expect(try bench.problems() == [])
            for mirror in try bench.operators.mirrors() { _ = try bench.operators.rebuild(mirror) }
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a change from é to e with a combining mark is recorded.
    @Test func twoSpellings() throws {
        try MirrorBench.with { bench in
            try bench.applyAll(
                #"{"name": "m", "path": "/m/{id}", "history": true, "columns": {"t": "text", "l": "text[]"}}"#
            )
            try bench.following { _ in
                try bench.set("/m/a", #"{"t": "\u00e9", "l": ["\u00e9"]}"#)
                try bench.set("/m/a/t", #""e\u0301""#)
                try bench.set("/m/a/l/0", #""e\u0301""#)
                try bench.catchUp("m", "m_changes")
            }
            #expect(
                try bench.lines("select length(t), length(l[1]), _seq from mirror.m_versions order by _seq")
                    == ["1|1|1", "2|1|2", "2|2|3"])
            #expect(
                try bench.lines(
                    "select length(_old ->> 't'), length(_new ->> 't'), _seq from mirror.m_changes order by _seq")
                    == ["|1|1", "1|2|2", "2|2|3"])
            #expect(
                try bench.lines(
                    "select count(*) from mirror.m join mirror.m_versions v using (id, t, l) where v._current")
                    == ["1"])
            #expect(try bench.problems() == [])
        }
    }
}
