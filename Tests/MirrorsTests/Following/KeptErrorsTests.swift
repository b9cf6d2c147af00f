import LogStore
import Mirrors
import TestSupport
import Testing

/// Checks that conversion errors are recorded up to a limit, and counted beyond it.
@Suite struct KeptErrorsTests {
    private func mirror(_ name: String, keeping count: Int) -> String {
        #"{"name": "\#(name)", "path": "/v/{k}", "columns": {"x": "bigint", "y": "boolean"}, "keep errors": \#(count)}"#
    }

    private func values(_ range: Range<Int>, _ value: String) -> String {
        "{\(range.map { "\"k\(10 + $0)\": {\"x\": \(value)}" }.joined(separator: ", "))}"
    }

    @Test(arguments: [0, 1, 3, 5, 6, 100]) func aFullTableIsBuiltWithSoMany(kept: Int) throws {
        try MirrorBench.with { bench in
            try bench.set("/v", values(0..<5, "\"t\""))
            let outcome = try bench.apply(mirror("m", keeping: kept))
            #expect(outcome?.rows == 5 && outcome?.conversionErrors == 5)
            #expect(try bench.errors("m").count == min(5, kept))
            #expect(try bench.operators.unkeptErrors(try bench.mirror("m")) == Int64(max(0, 5 - kept)))
            let status = try bench.status("m")
            #expect((status.errors, status.unkeptErrors) == (Int64(min(5, kept)), Int64(max(0, 5 - kept))))
            // Rows are marked in any case.
            #expect(try bench.lines("select count(*) from mirror.m where _misfits = array['x']") == ["5"])
            #expect(try bench.problems() == [])
        }
    }

    @Test func errorsComeAndGoWithTheirRows() throws {
        try MirrorBench.with { bench in
            try bench.apply(mirror("m", keeping: 100))
            try bench.following { _ in
                func after(_ expected: [String]) throws {
                    try bench.catchUp("m")
                    #expect(try bench.errors("m") == expected)
                }
                let unfit = "a text where a whole number should be"
                try bench.set("/v/a", #"{"x": "t", "y": 1}"#)
                try after(["x of /v/a: \(unfit)", "y of /v/a: a number where a boolean should be"])
                // One of the values now fits.
                try bench.set("/v/a/y", "true")
                try after(["x of /v/a: \(unfit)"])
                try bench.set("/v/b", #"{"x": true}"#)
                try after(["x of /v/a: \(unfit)", "x of /v/b: a boolean where a whole number should be"])
                // Another error replaces the first.
                try bench.set("/v/a/x", "1.5")
                try after([
                    "x of /v/a: the number is not a whole number of 64 bits",
                    "x of /v/b: a boolean where a whole number should be",
                ])
                try bench.set("/v/b", "null")
                try after(["x of /v/a: the number is not a whole number of 64 bits"])
                try bench.set("/v", #"{"c": {"x": []}, "d": {"x": "t"}}"#)
                try after(["x of /v/d: \(unfit)"])
                try bench.set("/v", "null")
                try after([])
                #expect(try bench.operators.unkeptErrors(try bench.mirror("m")) == 0)
            }
        }
    }

    /// Checks that a row that is written when records are read again has the seq and time of an entry.
    @Test func theNextLookIsScheduled() throws {
        try MirrorBench.with { bench in
            try bench.apply(mirror("m", keeping: 10))
            try bench.script("alter table mirror.m add constraint small check (x < 5)")
            try bench.following { _ in
                try bench.set("/v/a", #"{"x": 7}"#)
                try bench.catchUp("m")
                #expect(try bench.lines("select k from mirror.m") == [])
                try bench.script("alter table mirror.m drop constraint small")
                let seq = try bench.set("/elsewhere", "1")
                try bench.catchUp("m")
                let found = try bench.operators.retryConversionErrors(try bench.mirror("m"))
                #expect(found.records == 1 && found.left == 0)
                #expect(
                    try bench.lines(
                        """
                        select x, _seq, _updated_at = (select date_trunc('milliseconds', committed_at + interval '0.5 ms') from pathmirror.log where seq = _seq)
                        from mirror.m
                        """) == ["7|\(seq)|t"])
            }
        }
    }

    @Test func beyondTheBoundTheyAreCountedOnly() throws {
        try MirrorBench.with { bench in
            try bench.apply(mirror("m", keeping: 3))
            try bench.following { _ in
                try bench.set("/v", values(0..<2, "\"t\""))
                try bench.catchUp("m")
                #expect(try (bench.errors("m").count, bench.status("m").unkeptErrors) == (2, 0))
                try bench.update("/v", (0..<4).map { ("more\($0)", #"{"x": "t"}"#) })
                try bench.catchUp("m")
                #expect(try (bench.errors("m").count, bench.status("m").unkeptErrors) == (3, 3))
                // Known errors are updated nevertheless, and freed space is used.
                try bench.set("/v/k10/x", "true")
                try bench.catchUp("m")
                #expect(try bench.errors("m").contains("x of /v/k10: a boolean where a whole number should be"))
                #expect(try bench.status("m").unkeptErrors == 3)
                try bench.set("/v/k11/x", "1")
                try bench.catchUp("m")
                #expect(try bench.errors("m").count == 2)
                try bench.set("/v/last/x", "\"t\"")
                try bench.catchUp("m")
                #expect(try (bench.errors("m").count, bench.status("m").unkeptErrors) == (3, 3))
                #expect(try bench.problems() == [])
                // A rebuild reads every record again.
                _ = try bench.operators.rebuild(try bench.mirror("m"))
                #expect(try bench.errors("m").count == 3)
                #expect(try bench.operators.unkeptErrors(try bench.mirror("m")) == 3)
            }
        }
    }

    @Test func tryingAgainTakesWhatFitsByNow() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1}, "b": {"x": 3}, "c": {"x": "t"}}"#)
            try bench.apply(mirror("m", keeping: 100))
            try bench.script("alter table mirror.m add constraint odd check (x % 2 = 1)")
            // The row that violates the constraint is omitted.
            try bench.following { _ in
                try bench.set("/v/d", #"{"x": 4}"#)
                try bench.catchUp("m")
            }
            #expect(try bench.errors("m").map { String($0.prefix(8)) }.sorted() == [" of /v/d", "x of /v/"])
            try bench.script("alter table mirror.m drop constraint odd")
            let retried = try bench.operators.retryConversionErrors(try bench.mirror("m"))
            #expect((retried.records, retried.left) == (2, 1))
            #expect(try bench.lines("select k, x from mirror.m order by k") == ["a|1", "b|3", "c|", "d|4"])
            #expect(try bench.errors("m") == ["x of /v/c: a text where a whole number should be"])
        }
    }

    @Test func longValuesAndPathsAreKeptShort() throws {
        try MirrorBench.with { bench in
            let key = String(repeating: "k", count: 760)
            try bench.set("/v/\(key)", "{\"x\": \"\(String(repeating: "é", count: 9_000))\"}")
            try bench.apply(mirror("m", keeping: 10))
            let error = try #require(try bench.operators.conversionErrors(try bench.mirror("m"), limit: 10).first).error
            #expect(error.path == "/v/\(key)/x" && error.record == "/v/\(key)" && error.seq == 1)
            #expect(error.value.map { $0.utf8.count < 4_200 && $0.hasSuffix("é…") } == true)
        }
    }
}
