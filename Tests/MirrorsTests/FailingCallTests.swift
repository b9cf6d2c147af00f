import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

@testable import Mirrors

/// Checks builds and services of mirrors in which each database call in turn loses its connection, before or after the
/// call.
@Suite struct FailingMirrorCallTests {
    private static let posts = #"""
        {"name": "posts", "path": "/posts/{id}", "history": true, "columns": {"title": "text", "stars": "bigint"}}
        """#

    /// Builds the mirrors of a definition like an operator who repeats the command until it succeeds.
    private static func build(_ url: PostgresURL, _ calls: FailingCalls) -> Bool {
        eventually(seconds: 20) {
            do {
                let operators = try MirrorAdministration(url, environment: [:], faults: calls)
                defer { operators.close() }
                for definition in try MirrorDefinition.read(Array(posts.utf8), source: "test") {
                    _ = try operators.execute(try operators.plan(definition, namespace: "test"))
                }
                return true
            } catch {
                return false
            }
        }
    }

    private static func following(_ calls: FailingCalls) throws -> [String] {
        var problems: [String] = []
        try MirrorBench.with { bench in
            for number in 1...6 {
                try bench.set("/posts/p\(number % 4)", #"{"title": "t\#(number)", "stars": \#(number)}"#)
            }
            guard build(bench.url, calls) else {
                problems.append("the mirrors could not be built")
                return
            }
            try bench.following({ $0.faults = calls }) { _ in
                func catchUp(_ what: String) throws {
                    let isThere = try eventually(seconds: 20) {
                        let statuses = try bench.operators.statuses()
                        return statuses.count == 2 && statuses.allSatisfy { $0.seq == $0.head }
                    }
                    guard !isThere else { return }
                    problems.append("\(what): \(try bench.operators.statuses())")
                }
                try bench.set("/posts/p1/title", #""changed""#)
                try bench.set("/posts/p2", "null")
                try catchUp("after small entries")
                try bench.update("/posts", [("p5", #"{"title": "new"}"#), ("p3/stars", "9")])
                try bench.increment("/posts/p5/stars", by: 3)
                try bench.set("/posts", #"{"x": {"title": "X", "stars": 1}, "p1": {"title": "kept"}}"#)
                try catchUp("after all records were replaced")
            }
            problems += try bench.problems()
        }
        return problems
    }

    @Test func everyCallOfMirrors() {
        let outcome = FailingCalls.run(sample: 50, Self.following)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 40 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }
}
