import LogStore
import Mirrors
import TestSupport
import Testing
import Tree

/// Checks that records are assembled completely from the tree's rows, for any neighbors in byte order, both when
/// a table is filled and when it is followed.
@Suite struct RecordShapeTests {
    private static let long = String(repeating: "long ", count: 150)

    @Test(arguments: [
        // `/a b` and `/a!` sort between `/a` and `/a/.priority`.
        (
            "/{k}",
            #"{"a": {".value": 1, ".priority": 2}, "a b": {".value": 3, ".priority": 4}, "a!": 5, "a0": {"x": 1}}"#
        ),
        (
            "/v/{k}",
            #"{"v": {"a": {"x": 1, ".priority": 7}, "a b": {"x": {"y": 2}}, "a!": 5}, "v w": {"a": 1}, "v!": 1}"#
        ),
        (
            "/{k}/v",
            #"{"a": {"v": 1, "v v": 2}, "b": {"w": 1}, "c": 5, "d": {"v": {"x": 1}}, "e": {"v": {".value": true, ".priority": "p"}}}"#
        ),
        (
            "/{j}/{k}",
            #"{"a": {"b": 1, "c": {"d": 2}}, "e": 5, "f": {".priority": 1, "g": {".value": 2, ".priority": 3}}}"#
        ),
        (
            "/a/{j}/b/{k}",
            #"{"a": {"1": {"b": {"x": 1, "y": {"z": 2}}, "c": 1}, "2": {"b": 5}, "3": {"b": {"x": {".value": 1, ".priority": 2}}}}}"#
        ),
        ("/{k}", #"{"é": 1, "e\u0301": 2, "🎈": {"x": "y"}, "～": 3, "\"": 4, "'": 5}"#),
        ("/{k}", "5"),
        ("/{k}", "null"),
    ])
    func shapes(pattern: String, tree: String) throws {
        let text =
            #"{"path": "\#(pattern)", "columns": {"all": {"type": "jsonb", "path": "."}, "p": {"type": "text", "path": ".priority"}, "x": {"type": "text", "path": "x"}}, "#
        try MirrorBench.with { bench in
            try bench.apply(text + #""name": "followed"}"#)
            try bench.set("/", tree)
            try bench.apply(text + #""name": "filled"}"#)
            try bench.following { _ in try bench.catchUp("followed", "filled") }
            try check(bench, "filled")
            try check(bench, "followed")
        }
    }

    /// Checks that each mirror holds the records that a plain traversal of the tree finds.
    private func check(_ bench: MirrorBench, _ name: String) throws {
        let log = try LogConnection(bench.url)
        defer { log.close() }
        let stored = try #require(try StoredProjection(log, try bench.mirror(name)))
        #expect(stored.difference == nil, "\(stored.difference ?? "")")
        #expect(stored.rows.count == records(of: stored.root, stored.definition.pattern).count)
    }

    /// Checks paths that are too long for an index. They are stored differently, so the rows of a record are not
    /// adjacent.
    @Test func longPaths() throws {
        let deep = (0..<4).map { "\(Self.long)\($0)" }
        let path = deep.joined(separator: "/")
        let columns = #""columns": {"all": {"type": "jsonb", "path": "."}, "x": {"type": "text", "path": "x"}}"#
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "shallow", "path": "/v/{k}", \#(columns)}"#)
            try bench.apply(#"{"name": "near", "path": "/v/{i}/{j}", \#(columns)}"#)
            try bench.set("/v/\(path)", #"{"x": "far", "y": [1, 2]}"#)
            try bench.set("/v/\(deep[0])/\(deep[1])/x", "\"near\"")
            try bench.set("/v/plain", #"{"x": "p"}"#)
            for name in ["shallow", "near"] {
                let path = name == "near" ? "/v/{i}/{j}" : "/v/{k}"
                try bench.apply(#"{"name": "\#(name)_filled", "path": "\#(path)", \#(columns)}"#)
            }
            // The captured keys are too long for a row's key, which gives an error and no row.
            try bench.apply(#"{"name": "far", "path": "/v/{h}/{i}/{j}/{k}", \#(columns)}"#)
            #expect(try bench.lines("select count(*) from mirror.far") == ["0"])
            #expect(try bench.errors("far").count == 1)
            try bench.following { _ in try bench.catchUp("shallow", "near", "shallow_filled", "near_filled", "far") }
            for name in ["shallow", "near", "shallow_filled", "near_filled"] { try check(bench, name) }
            #expect(try bench.lines("select x from mirror.near_filled where x is not null") == ["near"])
            #expect(try bench.problems() == [])
        }
    }

    @Test func manyRecordsAreFilledInParts() throws {
        try MirrorBench.with { bench in
            let count = 6_000
            try bench.set(
                "/v",
                "{\((0..<count).map { "\"k\($0)\": {\"n\": \($0), \"t\": \"text \($0)\"}" }.joined(separator: ", "))}")
            let outcome = try bench.apply(
                #"{"name": "m", "path": "/v/{k}", "columns": {"n": "bigint", "t": "text"}, "indexes": ["n"]}"#)
            #expect(outcome?.rows == count && outcome?.conversionErrors == 0 && outcome?.seq == 1)
            #expect(
                try bench.lines("select count(*), sum(n), count(distinct t), max(_seq) from mirror.m") == [
                    "\(count)|\(count * (count - 1) / 2)|\(count)|1"
                ])
            #expect(try bench.problems() == [])
        }
    }
}
