import HTTPServer
import Testing
import Wire

@testable import Gateway

/// Tests of how the path and method of a feed request are parsed.
@Suite struct FeedPathTests {
    private func read(_ method: HTTPMethod, _ path: String) throws(RESTError) -> FeedPath {
        try FeedPath(method, ArraySlice(path.utf8))
    }

    struct Case: Sendable {
        let method: HTTPMethod
        let path: String
        let asked: FeedPath

        init(_ method: HTTPMethod, _ path: String, _ asked: FeedPath) {
            self.method = method
            self.path = path
            self.asked = asked
        }
    }

    private static let cases = [
        Case(.get, "/.feeds", .list), Case(.head, "/.feeds", .list), Case(.get, "/.feeds/", .list),
        Case(.get, "/.feeds/a", .definition("a", .show)), Case(.head, "/.feeds/a", .definition("a", .show)),
        Case(.put, "/.feeds/a", .definition("a", .apply)), Case(.delete, "/.feeds/a", .definition("a", .remove)),
        Case(.get, "/.feeds/a/", .definition("a", .show)), Case(.post, "/.feeds/a/pull", .pull("a")),
        Case(.post, "/.feeds/a/ack", .settle("a", .ack)), Case(.post, "/.feeds/a/nack", .settle("a", .nack)),
        Case(.post, "/.feeds/a/extend", .settle("a", .extend)), Case(.get, "/.feeds/a/stream", .stream("a")),
        Case(.head, "/.feeds/a/stream", .stream("a")), Case(.post, "/.feeds/a/seek", .seek("a")),
        Case(.get, "/.feeds/a/dead", .dead("a")), Case(.post, "/.feeds/a/dead/retry", .retry("a")),
        Case(.post, "/.feeds/a/dead/drop", .drop("a")), Case(.get, "/.feeds/a/status", .status("a")),
        // Feeds may be named like verbs.
        Case(.post, "/.feeds/pull/pull", .pull("pull")), Case(.get, "/.feeds/status", .definition("status", .show)),
    ]

    @Test(arguments: cases) func asksFor(_ given: Case) throws {
        #expect(try read(given.method, given.path) == given.asked)
    }

    @Test(arguments: cases) func namesItsFeed(_ given: Case) throws {
        let parts = given.path.split(separator: "/").map(String.init)
        #expect(try read(given.method, given.path).name == (parts.count > 1 ? parts[1] : nil))
    }

    @Test func administratorsAlone() throws {
        let theirs = try Self.cases.filter { try read($0.method, $0.path).needsAdministrator }
        #expect(
            theirs.map { "\($0.method) \($0.path)" } == [
                "GET /.feeds", "HEAD /.feeds", "GET /.feeds/", "PUT /.feeds/a", "DELETE /.feeds/a",
            ])
    }

    @Test(arguments: [
        ("GET", ["/.feeds", "/.feeds/"]), ("GET, PUT or DELETE", ["/.feeds/a", "/.feeds/a/"]),
        (
            "POST",
            ["pull", "ack", "nack", "extend", "seek", "dead/retry", "dead/drop"].map { "/.feeds/a/\($0)" }
        ),
        ("GET", ["stream", "dead", "status"].map { "/.feeds/a/\($0)" }),
    ]) func otherMethodsAreRefused(_ methods: String, _ paths: [String]) {
        let allowed: [HTTPMethod] =
            switch methods {
            case "GET": [.get, .head]
            case "POST": [.post]
            default: [.get, .head, .put, .delete]
            }
        let all: [HTTPMethod] = [
            .get, .head, .post, .put, .patch, .delete, .options, .connect, .trace, .other("MKCOL"),
        ]
        for path in paths {
            for method in all where !allowed.contains(method) {
                #expect(throws: RESTError(405, "The method must be \(methods)"), "\(method) \(path)") {
                    try read(method, path)
                }
            }
        }
    }

    @Test(arguments: [
        "/.feeds/a/pulls", "/.feeds/a/pull/", "/.feeds/a/pull/x", "/.feeds/a//pull", "/.feeds/a/dead/", "/.feeds/a/x",
        "/.feeds/a/dead/retry/all", "/.feeds/a/Ack", "/.feeds/a/dead%2Fretry", "/.feeds//pull/pull",
    ]) func thereIsNothingElse(_ path: String) {
        for method in [HTTPMethod.get, .post, .put, .delete] {
            let error = #expect(throws: RESTError.self) { try read(method, path) }
            #expect(error?.status == 404)
        }
    }
}
