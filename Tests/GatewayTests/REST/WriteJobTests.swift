import Compression
import Engine
import HTTPServer
import Rules
import Runtime
import Testing
import Tree
import Wire

@testable import Gateway

/// Tests of how a request's body becomes a queued write or a refusal.
@Suite struct WriteJobTests {
    private static func rules(_ json: String) throws -> RuleSet { try RuleSet(json: Array(json.utf8)) }

    private func run(
        _ method: String, _ target: String, _ headers: [(String, String)] = [], body: String = "",
        identity: Identity = .anonymous(isLoopback: true), rules: RuleSet = .allowAll, name: String? = nil,
        on snapshot: Snapshot? = nil, _ change: (inout GatewaySettings) -> Void = { _ in }
    ) throws -> Result<WriteJob.Parsed, RESTError> {
        try TestCall(method, target, headers, body: body, as: identity).with { call, services in
            var settings = services.settings
            change(&settings)
            let permission = WritePermission(rules, call.auth, now: 0)
            return WriteJob(call, settings, permission, name: name).run(on: snapshot)
        }
    }

    private func refusal(
        _ method: String, _ target: String = "/a.json", _ headers: [(String, String)] = [], body: String
    ) throws -> RESTError? {
        if case .failure(let error) = try run(method, target, headers, body: body) { error } else { nil }
    }

    // MARK: Writes

    @Test func setting() throws {
        let parsed = try run("PUT", "/a/b.json", body: "{\"c\":1,\"d\":null}").get()
        #expect(parsed.write.path == Path(splitting: "a/b"))
        #expect(parsed.write.operation == .set)
        guard case .set(_, let value) = parsed.write.action else {
            Issue.record("no set")
            return
        }
        #expect(value == (try JSONParser.parse("{\"c\":1}")))
        #expect(parsed.bodyBytes == "{\"c\":1,\"d\":null}".utf8.count)
        #expect(parsed.write.expectedHash == nil && parsed.refusal == nil && parsed.share == nil)
    }

    @Test(
        arguments: [
            ("PUT", "1", Tree.Operation.set), ("PUT", "null", .remove), ("PUT", " {} ", .remove), ("POST", "1", .push),
            ("DELETE", "", .remove), ("PATCH", "{\"a\":1}", .update), ("PATCH", "null", .remove),
        ])
    func operations(_ method: String, _ body: String, _ wanted: Tree.Operation) throws {
        #expect(try run(method, "/a.json", body: body).get().write.operation == wanted)
    }

    @Test func conditions() throws {
        for (tag, hash) in [("abc=", "abc="), ("\"abc=\"", "abc="), ("null_etag", "")] {
            let write = try run("PUT", "/a.json", [("if-match", tag)], body: "1").get().write
            #expect(write.expectedHash == hash)
            #expect(write.operation == .transaction)
        }
        #expect(try run("DELETE", "/a.json", [("if-match", "x")]).get().write.operation == .remove)
    }

    @Test func pushedChildrenHaveTheirPaths() throws {
        let parsed = try run("POST", "/a.json", body: "1", name: "-Nxyz").get()
        #expect(parsed.write.path == Path(splitting: "a/-Nxyz"))
        #expect(parsed.name == "-Nxyz")
    }

    @Test func updates() throws {
        let parsed = try run("PATCH", "/a.json", body: "{\"b\":1,\"c/d\":{\"e\":2},\"f\":null}").get()
        guard case .update(let base, let changes) = parsed.write.action else {
            Issue.record("no update")
            return
        }
        #expect(base == Path(splitting: "a"))
        #expect(changes.map(\.path.description) == ["/a/b", "/a/c/d", "/a/f"])
        #expect(changes.last?.value == .null)
    }

    @Test func serverValues() throws {
        #expect(try run("PUT", "/a.json", body: "{\".sv\":\"timestamp\"}").get().write.hasServerValue)
        #expect(try run("PATCH", "/a.json", body: "{\"b\":{\".sv\":{\"increment\":1}}}").get().write.hasServerValue)
        #expect(try !run("PUT", "/a.json", body: "1").get().write.hasServerValue)
    }

    @Test(arguments: [
        ("1", true), ("-1.5", true), ("\"p\"", true), ("null", true), ("true", false), ("{\"a\":1}", false),
    ])
    func priorities(_ body: String, _ isGood: Bool) throws {
        let result = try run("PUT", "/a/.priority.json", body: body)
        if case .failure(let error) = result {
            #expect(!isGood && error.message == "A priority must be a number or a string.")
        } else {
            #expect(isGood)
        }
    }

    @Test(
        arguments: [(nil, nil), ("tiny", 100), ("small", 1_000), ("medium", 3_000), ("large", 6_000)]
            as [(String?, Int64?)])
    func sizeLimits(_ limit: String?, _ milliseconds: Int64?) throws {
        let target = limit.map { "/a.json?writeSizeLimit=\($0)" } ?? "/a.json"
        let write = try run("PUT", target, body: "1").get().write
        let parameters = try RESTParameters(limit.map { Array("writeSizeLimit=\($0)".utf8)[...] })
        #expect(parameters.writeTimeout == nil || write.rowLimit != nil)
        #expect(write.rowLimit == parameters.writeTimeout.map { Int($0 * 100) + 99 })
    }

    // MARK: Refusals

    @Test(
        arguments: [
            ("PUT", "", 400, "Missing data"), ("PUT", " \n", 400, "Missing data"), ("PUT", "{", 400, "Invalid data"),
            ("PUT", "{\"a.b\":1}", 400, "couldn't parse key"), ("PUT", "{\"\":1}", 400, "couldn't parse key"),
            ("PATCH", "1", 400, "Invalid data"), ("PATCH", "[1]", 400, "Invalid data"),
            ("PATCH", "{\"a\":1,\"a/b\":2}", 400, "is an ancestor of"), ("PATCH", "{\"a\":1,\"/a\":2}", 400, "twice"),
        ])
    func mistakes(_ method: String, _ body: String, _ status: Int, _ text: String) throws {
        let error = try #require(try refusal(method, body: body))
        #expect(error.status == status)
        #expect(error.message.contains(text) || error == .noData, "\(error.message)")
    }

    @Test func emptyBodiesOfDeletesAreRight() throws {
        #expect(try refusal("DELETE", body: "") == nil)
    }

    @Test func pathsHaveADepth() throws {
        let keys = (0..<33).map { "k\($0)" }
        let deepest = "/" + keys.prefix(32).joined(separator: "/")
        #expect(try refusal("PUT", "\(deepest).json", body: "1") == nil)
        #expect(try refusal("PUT", "\(deepest).json", body: "{\"a\":1}") != nil)
        #expect(try refusal("PUT", "\(deepest)/.priority.json", body: "1") == nil)
    }

    // MARK: Compressed bodies

    @Test(arguments: ["gzip", "x-gzip", "GZIP"])
    func compressedBodiesAreDecompressed(_ encoding: String) throws {
        let text = "{\"a\":\"" + String(repeating: "x", count: 1_000) + "\"}"
        let compressed = try #require(Gzip.compress(Array(text.utf8)))
        let call = try TestCall("PUT", "/a.json", [("Content-Encoding", encoding)], body: "?")
        let parsed = try call.with { call, services in
            let job = WriteJob(
                try Self.replacingBody(call, compressed), services.settings,
                WritePermission(.allowAll, call.auth, now: 0),
                name: nil)
            #expect(job.isHeavy, "however short it is")
            return try job.run().get()
        }
        #expect(parsed.bodyBytes == text.utf8.count)
        guard case .set(_, let value) = parsed.write.action else {
            Issue.record("no set")
            return
        }
        #expect(value == (try JSONParser.parse(text)))
    }

    private static func replacingBody(_ call: Call, _ body: [UInt8]) throws -> Call {
        let request = try TestRequest.make("PUT", "/a.json", [("Content-Encoding", "gzip")], bytes: body)
        return Call(
            request: request, exchange: call.exchange, method: .put, path: call.path, parameters: call.parameters,
            identity: call.identity, namespaceName: "db", address: call.address)
    }

    @Test func otherPackingsAreRefused() throws {
        #expect(try refusal("PUT", "/a.json", [("Content-Encoding", "br")], body: "1")?.status == 415)
        #expect(try refusal("PUT", "/a.json", [("Content-Encoding", "gzip")], body: "1")?.status == 400)
        #expect(try refusal("PUT", "/a.json", [("Content-Encoding", "identity")], body: "1") == nil)
    }

    /// Checks that a short compressed body that expands beyond the limit is refused.
    @Test func whatUnpacksToTooMuchIsRefused() throws {
        let compressed = try #require(Gzip.compress(Array(repeating: UInt8(ascii: " "), count: 100_000)))
        let result = try TestCall("PUT", "/a.json").with { call, services in
            var settings = services.settings
            settings.maxPlainBodyBytes = 50_000
            return WriteJob(
                try Self.replacingBody(call, compressed), settings, WritePermission(.allowAll, call.auth, now: 0),
                name: nil
            ).run()
        }
        guard case .failure(let error) = result else {
            Issue.record("let in")
            return
        }
        #expect(error.status == 413)
    }

    // MARK: Permissions and memory

    @Test func updatesAreJudgedByTheirPaths() throws {
        let rules = try Self.rules("{\"rules\":{\"a\":{\"open\":{\".write\":true}}}}")
        #expect(throws: Never.self) { try run("PATCH", "/a.json", body: "{\"open\":1}", rules: rules).get() }
        guard case .failure(.permissionDenied) = try run("PATCH", "/a.json", body: "{\"shut\":1}", rules: rules) else {
            Issue.record("let in")
            return
        }
    }

    /// Checks that a body is not parsed if the rules refuse the write in any case: it may not even be JSON.
    @Test func refusedWritesAreNotParsed() throws {
        let rules = try Self.rules("{\"rules\":{\".write\":\"root.child('o').val() == true\"}}")
        let version = RulesVersion(seq: 0, set: rules, enforcesIndexes: false)
        let shut = Snapshot(seq: 1, root: .null, rules: version)
        guard case .failure(.permissionDenied) = try run("PUT", "/a.json", body: "{nonsense", rules: rules, on: shut)
        else {
            Issue.record("parsed")
            return
        }
        let open = Snapshot(seq: 1, root: try JSONParser.parse("{\"o\":true}"), rules: version)
        #expect(throws: Never.self) { try run("PUT", "/a.json", body: "1", rules: rules, on: open).get() }
    }

    @Test func largeBodiesTakeMemory() throws {
        let body = "[" + String(repeating: "1,", count: 2_000) + "1]"
        let memory = MemoryBudget(bytes: 2_000, bytesPerAddress: 1_000)
        let run: () throws -> Result<WriteJob.Parsed, RESTError> = {
            try self.run("PUT", "/a.json", body: body) {
                $0.heavyBodyBytes = 1_000
                $0.memory = memory
            }
        }
        // The first request may exceed the share. A second request from the same address is refused while the first is
        // held.
        var first: WriteJob.Parsed? = try run().get()
        #expect(first?.share?.bytes == JSONSize.estimate(Array(body.utf8)))
        guard case .failure(let error) = try run() else {
            Issue.record("there is no room for it")
            return
        }
        #expect(error.status == 503)
        first = nil
        #expect(memory.taken == 0)
        #expect(throws: Never.self) { try run().get() }
    }
}
