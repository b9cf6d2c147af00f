import LogStore
import Mirrors
import TestSupport
import Testing

/// Rows that an object of the table keeps out.
@Suite struct KeptOutRowsTests {
    /// A unique index that somebody made by hand: a row that it keeps out is an error of its record until the record is written again,
    /// or until a repair.
    @Test func aUniqueIndexMadeByHand() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/u/{k}", "columns": {"email": "text"}}"#)
            try bench.script("create unique index once on mirror.m (email)")
            func expect(_ rows: [String], refused: [String]) throws {
                try bench.catchUp("m")
                #expect(try bench.lines("select k, email from mirror.m order by k") == rows)
                let reason = #"the table refuses the row: duplicate key value violates unique constraint "once""#
                #expect(try bench.errors("m") == refused.map { " of /u/\($0): \(reason)" })
                #expect(try bench.problems() == [])
            }
            try bench.following { _ in
                try bench.set("/u/a/email", #""x""#)
                try expect(["a|x"], refused: [])
                try bench.set("/u/b/email", #""x""#)
                try expect(["a|x"], refused: ["b"])
                try bench.set("/u/a", "null")
                try expect([], refused: ["b"])
                try bench.set("/u/b", #"{"email": "x", "n": 1}"#)
                try expect(["b|x"], refused: [])
                try bench.set("/u/c/email", #""x""#)
                try expect(["b|x"], refused: ["c"])
                try bench.set("/u/b/email", #""y""#)
                try expect(["b|y"], refused: ["c"])
                #expect(try bench.operators.retryConversionErrors(try bench.mirror("m")).left == 0)
                try expect(["b|y", "c|x"], refused: [])
                try bench.set("/u/d/email", #""y""#)
                try expect(["b|y", "c|x"], refused: ["d"])
                try bench.set("/u/b", "null")
                try expect(["c|x"], refused: ["d"])
            }
            // The new table gets the index, and the row that fits by now.
            _ = try bench.operators.rebuild(try bench.mirror("m"))
            try expect(["c|x", "d|y"], refused: [])
            #expect(try bench.lines("select indexname from pg_indexes where indexname = 'once'") == ["once"])
        }
    }
}
