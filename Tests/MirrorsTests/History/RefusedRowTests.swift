import TestSupport
import Testing

@testable import Mirrors

/// Tests of rows that a history's table cannot hold: previous rows, errors and verification.
@Suite struct RefusedRowTests {
    private func definition(_ member: String) -> String {
        "{\"name\": \"posts\", \"path\": \"/posts/{id}\", \(member), \"columns\": {\"title\": \"text\"}, \"indexes\": [[\"title\"]]}"
    }

    /// Returns an incompressible text that is too long for an index.
    private func long(_ number: Int) -> String {
        var random = SeededGenerator(seed: UInt64(number))
        return "\"" + String((0..<9_000).map { _ in Character(UnicodeScalar(UInt8(97 + random.below(26)))) }) + "\""
    }

    /// Checks that a row that would remain after its record's removal does not keep its old state if the table refuses
    /// the new one.
    @Test func ofATableThatKeepsTheLast() throws {
        try MirrorBench.with { bench in
            let look = "select id, title, _seq, _deleted_at is null from mirror.posts order by id"
            try bench.set("/posts/a/title", #""A""#)
            try bench.set("/posts/c/title", #""C""#)
            try bench.apply(definition(#""deleted": "soft""#))
            try bench.following { _ in
                try bench.set("/posts/a/title", long(1))
                try bench.set("/posts/b/title", #""B""#)
                try bench.catchUp("posts")
                #expect(try bench.lines(look) == ["b|B|4|t", "c|C|2|t"])
                #expect(try bench.errors("posts").count == 1)
                #expect(try bench.problems() == [])
                // After its removal, the record has no earlier row either.
                try bench.set("/posts/a", "null")
                try bench.catchUp("posts")
                #expect(try bench.lines(look) == ["b|B|4|t", "c|C|2|t"])
                #expect(try bench.problems() == [])
            }
            _ = try bench.operators.rebuild(try bench.mirror("posts"))
            #expect(try bench.lines(look) == ["b|B|4|t", "c|C|2|t"])
            #expect(try bench.errors("posts").count == 1)
            #expect(try bench.problems() == [])
            // A value that fits removes the error, also when written above the records.
            try bench.following { _ in
                try bench.set("/posts", "{\"a\": {\"title\": \"A2\"}, \"c\": {\"title\": \(long(2))}}")
                try bench.catchUp("posts")
                #expect(try bench.lines(look) == ["a|A2|6|t", "b|B|6|f"])
                #expect(try bench.errors("posts").map { $0.prefix(12) } == [" of /posts/c"])
                try bench.set("/posts/c/title", #""C2""#)
                try bench.catchUp("posts")
                #expect(try bench.lines(look) == ["a|A2|6|t", "b|B|6|f", "c|C2|7|t"])
                #expect(try bench.errors("posts") == [])
            }
            try bench.script("delete from mirror.posts where id = 'a'")
            #expect(try bench.problems().count == 1)
        }
    }

    /// Checks that an error excuses only the row of its own version.
    @Test func excuseTheirOwnVersionsOnly() throws {
        try MirrorBench.with { bench in
            try bench.apply(
                definition(#""keeps": "changes""#).replacing(#""indexes": [["title"]]"#, with: #""rest": "rest""#))
            // A user-defined index.
            try bench.script("create index on mirror.posts ((_new ->> 'title'))")
            try bench.following { _ in
                try bench.set("/posts/a/title", #""A""#)
                try bench.set("/posts/a/title", long(1))
                try bench.set("/posts/a/title", #""B""#)
                try bench.set("/posts/a/title", long(2))
                try bench.catchUp("posts")
            }
            let all = try bench.lines("select _seq from mirror.posts order by _seq")
            #expect(all == ["1", "3"])
            #expect(try bench.errors("posts").count == 2)
            #expect(try bench.problems() == [])
            #expect(try bench.operators.rebuild(try bench.mirror("posts")).conversionErrors == 2)
            try bench.script("delete from mirror.posts where _seq = 3")
            let problems = try bench.problems()
            #expect(problems.count == 1 && problems.allSatisfy { $0.contains("is missing") }, "\(problems)")
        }
    }
}
