import Compression
import Engine
import Rules
import Testing
import Tree
import Wire

@testable import Gateway
@testable import HTTPServer

/// Tests of the answers to GET requests and writes.
@Suite struct AnswerJobTests {
    private static let value = "{\"a\":{\"b\":1,\"c\":\"x\"},\"n\":2}"

    /// Returns the answer to a GET of `target` for a value at its path.
    private func read(
        _ target: String, _ headers: [(String, String)] = [], _ json: String = Self.value,
        _ change: @Sendable (inout GatewaySettings) -> Void = { _ in }
    ) throws -> DataAnswer {
        let node = try JSONParser.parse(json)
        return try TestCall("GET", target, headers).with { call, services in
            var settings = services.settings
            change(&settings)
            let namespace = TestNamespace(root: node)
            let selection = Selection(call.parameters.query, at: call.path, namespace.live, namespace.snapshot)
            return ReadJob(call, 7, node, selection, settings).run()
        }
    }

    private func text(_ answer: DataAnswer) -> String { String(decoding: answer.body, as: UTF8.self) }

    // MARK: Reading

    @Test func valuesAreSent() throws {
        let answer = try read("/x.json")
        #expect(answer.status == 200)
        #expect(text(answer) == Self.value)
        #expect(answer.headers.value("content-type") == "application/json; charset=utf-8")
        #expect(answer.headers.value("x-pathmirror-seq") == "7")
        #expect(answer.headers.value("access-control-expose-headers") == "ETag, X-Pathmirror-Seq")
        #expect(answer.headers.value("etag") == nil)
    }

    @Test(
        arguments: [
            ("shallow=true", "{\"a\":true,\"n\":true}"), ("print=silent", ""),
            ("orderBy=\"$key\"&limitToLast=1", "{\"n\":2}"),
            ("print=pretty", "{\n  \"a\" : {\n    \"b\" : 1,\n    \"c\" : \"x\"\n  },\n  \"n\" : 2\n}"),
        ])
    func forms(_ query: String, _ wanted: String) throws {
        let answer = try read("/x.json?\(query)")
        #expect(text(answer).trimmingSpace == wanted)
        #expect(answer.status == (wanted.isEmpty ? 204 : 200))
    }

    /// Checks that a query's result is an object even if nothing matches, and null if there is no data.
    @Test(
        arguments: [
            ("orderBy=\"$key\"&equalTo=\"x\"", Self.value, "{}"), ("orderBy=\"n\"&startAt=9", Self.value, "{}"),
            ("shallow=true&startAt=\"x\"", Self.value, "{}"),
            ("orderBy=\"$value\"&equalTo=9&format=export", Self.value, "{}"),
            ("orderBy=\"$key\"&limitToFirst=1", "\"leaf\"", "{}"), ("orderBy=\"$key\"", "[1,2]", "{\"0\":1,\"1\":2}"),
            ("orderBy=\"$key\"&limitToFirst=1", "[[5],2]", "{\"0\":[5]}"), ("shallow=true", "\"leaf\"", "\"leaf\""),
            ("shallow=true&limitToFirst=1", "[1,2]", "{\"0\":true}"), ("orderBy=\"$key\"", "null", "null"),
            ("shallow=true&limitToFirst=1", "null", "null"), ("shallow=true", "null", "null"),
        ])
    func queriesAreAnsweredObjects(_ query: String, _ json: String, _ wanted: String) throws {
        let answer = try read("/x.json?\(query)", [], json)
        #expect(answer.status == 200 && text(answer) == wanted)
    }

    @Test func tagsAreOfAllTheData() throws {
        let node = try JSONParser.parse(Self.value)
        let wanted = ("X-Firebase-ETag", "true")
        #expect(try read("/x.json", [wanted]).headers.value("etag") == node.hash)
        #expect(try read("/x.json", [wanted], "null").headers.value("etag") == "null_etag")
        #expect(try read("/x.json?print=silent", [wanted]).headers.value("etag") == node.hash)
        // A query's answer has no ETag.
        #expect(try read("/x.json?orderBy=\"$key\"", [wanted]).headers.value("etag") == nil)
        #expect(try read("/x.json", [("X-Firebase-ETag", "false")]).headers.value("etag") == nil)
    }

    @Test func whatIsKnownIsNotSentAgain() throws {
        let hash = try JSONParser.parse(Self.value).hash
        for tag in [hash, "\"\(hash)\""] {
            let answer = try read("/x.json", [("If-None-Match", tag)])
            #expect(answer.status == 304 && answer.body.isEmpty)
            #expect(answer.headers.value("etag") == hash)
        }
        #expect(try read("/x.json", [("If-None-Match", "other")]).status == 200)
        #expect(try read("/x.json", [("If-None-Match", "null_etag")], "null").status == 304)
    }

    @Test func scriptsAreSafe() throws {
        let answer = try read("/x.json?callback=f", [], "\"</script>\"")
        #expect(answer.headers.value("content-type") == "application/javascript; charset=utf-8")
        #expect(answer.headers.value("x-content-type-options") == "nosniff")
        #expect(text(answer).hasPrefix("/**/f(") && text(answer).hasSuffix(");"))
        #expect(!text(answer).contains("</script>"))
    }

    @Test func downloadsHaveNames() throws {
        let answer = try read("/x.json?download=a%22b%2Fc%5Cd%0Ae.json")
        #expect(answer.headers.value("content-disposition") == "attachment; filename=\"abcde.json\"")
    }

    @Test func longAnswersAreCompressed() throws {
        let long = "\"" + String(repeating: "x", count: 2_000) + "\""
        let compressed = try read("/x.json", [("Accept-Encoding", "gzip")], long)
        #expect(
            compressed.headers.value("content-encoding") == "gzip"
                && compressed.headers.value("vary") == "Accept-Encoding")
        #expect(String(decoding: try Gzip.decompress(compressed.body, limit: 10_000), as: UTF8.self) == long)
        let short = try read("/x.json", [("Accept-Encoding", "gzip")])
        #expect(short.headers.value("content-encoding") == nil && short.headers.value("vary") == "Accept-Encoding")
        #expect(text(short) == Self.value)
        let unasked = try read("/x.json", [], long)
        #expect(unasked.headers.value("vary") == nil && text(unasked) == long)
        let off = try read("/x.json", [("Accept-Encoding", "gzip;q=0")], long)
        #expect(off.headers.value("content-encoding") == nil)
    }

    // MARK: Writing

    private func written(
        _ method: String, _ target: String, _ result: WriteAnswer.Result, _ headers: [(String, String)] = [],
        _ prepare: @Sendable (Call) -> Void = { _ in }
    ) throws -> DataAnswer {
        try TestCall(method, target, headers).with { call, services in
            prepare(call)
            return WriteAnswer(call, result, 9, services.settings).run()
        }
    }

    private func change(_ path: String, _ json: String) throws -> Change {
        Change(path: Path(splitting: path), value: try JSONParser.parse(json))
    }

    /// Checks that the answer contains the stored value in canonical form, regardless of its form in the body.
    @Test(
        arguments: [
            ("{ \"b\" : 1 , \"gone\":null }", "{\"b\":1}"), ("{\"b\":2,\"a\":1}", "{\"a\":1,\"b\":2}"),
            ("{\"0\":\"x\",\"1\":\"y\"}", "[\"x\",\"y\"]"), ("[\"x\",\"y\"]", "[\"x\",\"y\"]"), ("1.0", "1"),
            ("1e2", "100"),
            ("\"\\u00e9\\/\"", "\"é/\""), ("{}", "null"), ("{\"a\":{}}", "null"),
            ("{\".value\":1,\".priority\":2}", "{\".value\":1,\".priority\":2}"), ("{\".value\":1}", "1"),
        ])
    func writesAreAnsweredWhatIsStored(_ body: String, _ stored: String) throws {
        let answer = try written("PUT", "/a.json", .committed([try change("a", body)]))
        #expect(answer.status == 200 && text(answer) == stored)
        #expect(answer.headers.value("x-pathmirror-seq") == "9")
    }

    @Test func updatesAreAnsweredByPath() throws {
        let plain = try written(
            "PATCH", "/a.json",
            .committed([try change("a/t", "[1,2]"), try change("a/b/c", "true"), try change("a/d", "{}")]))
        #expect(text(plain) == "{\"t\":[1,2],\"b/c\":true,\"d\":null}")
        let ranked = try written(
            "PATCH", "/a.json",
            .committed([try change("a/t", "[1]"), try change("a/b", "{\".value\":1,\".priority\":2}")]))
        #expect(text(ranked) == "{\"t\":[1],\"b\":{\".value\":1,\".priority\":2}}")
        #expect(text(try written("PATCH", "/a.json", .committed([]))) == "{}")
        #expect(text(try written("PATCH", "/a.json", .committed([try change("a", "null")]))) == "null")
        #expect(text(try written("PATCH", "/.json", .committed([try change("", "null")]))) == "null")
    }

    @Test func pushesAnswerTheName() throws {
        let answer = try written("POST", "/a.json", .committed([try change("a/-N1", "1")])) { $0.pushedName = "-N1" }
        #expect(text(answer) == "{\"name\":\"-N1\"}")
    }

    @Test func deletesAnswerNull() throws {
        #expect(text(try written("DELETE", "/a.json", .committed([try change("a", "null")]))) == "null")
    }

    @Test func silentWritesAnswerNothing() throws {
        let answer = try written(
            "PUT", "/a.json?print=silent", .committed([try change("a", "1")]), [("X-Firebase-ETag", "true")])
        #expect(answer.status == 204 && answer.body.isEmpty)
        #expect(answer.headers.value("etag") == Node.int(1).hash)
    }

    @Test(
        arguments: [
            ("PUT", "1", "1"), ("PUT", "null", nil), ("DELETE", "null", nil), ("POST", "1", "1"),
        ] as [(String, String, String?)])
    func tagsOfWhatIsThereNow(_ method: String, _ written: String, _ hashed: String?) throws {
        let answer = try self.written(
            method, "/a.json", .committed([try change("a", written)]), [("X-Firebase-ETag", "true")])
        let wanted = try hashed.map { try JSONParser.parse($0).hash } ?? "null_etag"
        #expect(answer.headers.value("etag") == wanted)
    }

    @Test func updatesHaveNoTag() throws {
        let answer = try written(
            "PATCH", "/a.json", .committed([try change("a/b", "1")]), [("X-Firebase-ETag", "true")])
        #expect(answer.headers.value("etag") == nil)
    }

    /// Checks that an increment's answer has no ETag: it would reveal the result to a client without read permission.
    @Test func incrementsHaveNoTag() throws {
        let increment = try JSONParser.parse(Array("{\".sv\":{\"increment\":1}}".utf8)).node
        let answer = try written(
            "PUT", "/a.json", .committed([Change(path: Path(splitting: "a"), value: increment)]),
            [("X-Firebase-ETag", "true")]
        )
        #expect(answer.headers.value("etag") == nil)
        #expect(text(answer) == "{\".sv\":{\"increment\":1}}")
    }

    @Test func staleConditionsAreAnsweredTheValue() throws {
        let current = try JSONParser.parse("{\"b\":2}")
        let answer = try written("PUT", "/a.json", .stale(current), [("if-match", "x")])
        #expect(answer.status == 412)
        #expect(text(answer) == "{\"b\":2}")
        #expect(answer.headers.value("etag") == current.hash)
        #expect(try written("PUT", "/a.json", .stale(.null)).headers.value("etag") == "null_etag")
    }

    @Test func heavyAnswersAreKnown() throws {
        let wide = Node(children: (0..<50).map { (Key("k\($0)"), Node.int(1)) })
        try TestCall("PUT", "/a.json").with { call, services in
            var settings = services.settings
            settings.heavyRows = 10
            settings.heavyBodyBytes = 100
            let path = Path(splitting: "a")
            #expect(WriteAnswer(call, .stale(wide), 1, settings).isHeavy(settings))
            #expect(!WriteAnswer(call, .stale(.int(1)), 1, settings).isHeavy(settings))
            let change = Change(path: path, value: .int(1))
            #expect(!WriteAnswer(call, .committed([change]), 1, settings).isHeavy(settings))
            #expect(
                WriteAnswer(call, .committed(Array(repeating: change, count: 11)), 1, settings).isHeavy(settings))
            #expect(WriteAnswer(call, .committed([Change(path: path, value: wide)]), 1, settings).isHeavy(settings))
            call.bodyBytes = 101
            #expect(WriteAnswer(call, .committed([change]), 1, settings).isHeavy(settings))
        }
    }
}

extension String {
    fileprivate var trimmingSpace: String { String(reversed().drop { $0.isWhitespace }.reversed()) }
}
