import Testing
import Tree

/// Checks the syntax of patterns, and the paths that they produce.
@Suite struct PathPatternTests {
    private func keys(_ texts: [String]) -> [Key] { texts.map { Key($0) } }

    /// A combining mark after a brace forms one character with it; the brace is recognized all the same.
    @Test func capturesThatBeginWithAMark() throws {
        let pattern = try PathPattern("/x/{\u{345}id}")
        #expect(pattern.captures == ["\u{345}id"] && pattern.base == Path(splitting: "x"))
        #expect(throws: PatternError.self) { try PathPattern("/x/a{\u{345}id}") }
    }

    @Test(arguments: [
        ("/{k}", "/", ["k"], 1), ("/a/{k}", "/a", ["k"], 2), ("/a/b/{k}", "/a/b", ["k"], 3),
        ("/{j}/{k}", "/", ["j", "k"], 2),
        ("/{j}/a/{k}/b", "/", ["j", "k"], 4), ("/a b/é/{post_id}", "/a b/é", ["post_id"], 3),
        ("/a/{Any Name é}", "/a", ["Any Name é"], 2),
        ("/\u{301}a/{k}", "/\u{301}a", ["k"], 2),
        ("/{k}/a/b", "/", ["k"], 3), ("/a/b", "/a/b", [], 2),
    ])
    func patterns(text: String, base: String, captures: [String], depth: Int) throws {
        let pattern = try PathPattern(text)
        #expect(pattern.description == text)
        #expect(pattern.base == Path(splitting: base))
        #expect(pattern.captures == captures)
        #expect(pattern.depth == depth)
        #expect(try PathPattern(pattern.description) == pattern)
    }

    @Test(arguments: [
        ("", "a path pattern begins with /, such as /posts/{post_id}"),
        ("a/{k}", "a path pattern begins with /, such as /posts/{post_id}"),
        ("/", "the path pattern / has an empty part"), ("//{k}", "the path pattern //{k} has an empty part"),
        ("/{k}/", "the path pattern /{k}/ has an empty part"),
        ("/a.b/{k}", "the part \"a.b\" of the path pattern contains \".\""),
        ("/a$/{k}", "the part \"a$\" of the path pattern contains \"$\""),
        ("/{}", "\"{}\" captures nothing: a capture is a whole part, such as {post_id}"),
        ("/a{k}", "\"a{k}\" captures nothing: a capture is a whole part, such as {post_id}"),
        ("/{k}b", "\"{k}b\" captures nothing: a capture is a whole part, such as {post_id}"),
        ("/{a{b}}", "\"{a{b}}\" captures nothing: a capture is a whole part, such as {post_id}"),
        ("/{k", "\"{k\" captures nothing: a capture is a whole part, such as {post_id}"),
        ("/}", "\"}\" captures nothing: a capture is a whole part, such as {post_id}"),
        ("/{k}/{j}/{k}", "{k} comes twice in the path pattern"),
    ])
    func noPatterns(text: String, reason: String) {
        do {
            let pattern = try PathPattern(text)
            Issue.record("\(pattern)")
        } catch {
            #expect(error.reason == reason)
        }
    }

    @Test func lengthsEndSomewhere() throws {
        let deep = String(repeating: "/a", count: 31)
        #expect(try PathPattern(deep + "/{k}").depth == 32)
        #expect(throws: PatternError.self) { try PathPattern(deep + "/a/{k}") }
        let long = "/" + String(repeating: "x", count: 768)
        #expect(try PathPattern(long + "/" + String(repeating: "y", count: 230) + "/{k}").depth == 3)
        #expect(throws: PatternError.self) { try PathPattern(long + "/" + String(repeating: "y", count: 231) + "/{k}") }
        #expect(throws: PatternError.self) { try PathPattern(long + "z/{k}") }
    }

    @Test(arguments: [
        ("/{k}", ["x"], "/x"), ("/a/{j}/b/{k}", ["1", "é"], "/a/1/b/é"), ("/{j}/{k}/c", ["x", "y"], "/x/y/c"),
    ])
    func theRecordOfCapturedKeys(pattern: String, captured: [String], path: String) throws {
        #expect(try PathPattern(pattern).path(of: keys(captured)) == Path(splitting: path))
    }

    @Test(
        arguments: [
            ("/{k}", [], "/"), ("/{k}", ["x"], "/x"), ("/a/{k}", [], "/a"), ("/a/{j}/b/{k}", [], "/a"),
            ("/a/{j}/b/{k}", ["1"], "/a/1/b"),
            ("/a/{j}/b/{k}", ["1", "2"], "/a/1/b/2"), ("/a/{j}/b/{k}/c", ["1", "2"], "/a/1/b/2/c"),
            ("/{j}/{k}", ["1"], "/1"),
        ] as [(String, [String], String)])
    func thePathAboveAllRecordsOfSomeKeys(pattern: String, captured: [String], path: String) throws {
        #expect(try PathPattern(pattern).path(above: keys(captured)) == Path(splitting: path))
    }
}
