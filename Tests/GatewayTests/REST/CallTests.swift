import Engine
import Rules
import Testing
import Tree
import Wire

@testable import Gateway
@testable import HTTPServer

/// Tests of how the method and permissions of a REST request are determined.
@Suite struct CallTests {
    private func method(
        _ name: String, _ override: String? = nil, query: String? = nil
    ) throws(RESTError) -> Call.Method {
        let headers = override.map { [("X-HTTP-Method-Override", $0)] } ?? []
        guard let request = try? TestRequest.make(name, "/a.json", headers) else {
            throw RESTError(500, "no request")
        }
        return try Call.Method(request, try RESTParameters(query.map { Array($0.utf8)[...] }))
    }

    @Test func methods() throws {
        #expect(try method("GET") == .get)
        #expect(try method("HEAD") == .get)
        #expect(try method("PUT") == .put)
        #expect(try method("POST") == .post)
        #expect(try method("PATCH") == .patch)
        #expect(try method("DELETE") == .delete)
        for other in ["TRACE", "MKCOL", "LOCK"] {
            #expect(throws: RESTError.self) { try method(other) }
        }
    }

    @Test(
        arguments: [
            ("PUT", Call.Method.put), ("patch", .patch), ("Delete", .delete), ("GET", .get), ("POST", .post),
        ])
    func postsMayStandForOthers(_ name: String, _ wanted: Call.Method) throws {
        #expect(try method("POST", name) == wanted)
        #expect(try method("POST", query: "x-http-method-override=\(name)") == wanted)
        // Other methods cannot be overridden.
        #expect(try method("PUT", name) == .put)
        #expect(try method("GET", name) == .get)
    }

    @Test func unknownOverridesAreRefused() throws {
        for name in ["", "HEAD", "OPTIONS", "x"] {
            #expect(throws: RESTError.self) { try method("POST", name) }
        }
        #expect(try method("POST", "PUT", query: "x-http-method-override=DELETE") == .put, "the header comes first")
    }

    @Test(
        arguments: [
            ("text/event-stream", true), ("Text/Event-Stream", true), ("text/html, text/event-stream;q=0.9", true),
            ("*/*", false), ("application/json", false), ("text/event", false),
        ])
    func streams(_ accept: String, _ wanted: Bool) throws {
        let isWanted = try TestCall("GET", "/a.json", [("Accept", accept)]).with { call, _ in call.wantsStream }
        #expect(isWanted == wanted)
    }

    @Test func idsOfEvents() throws {
        for (target, headers, wanted) in [
            ("/a.json", [], false), ("/a.json?eventIds=true", [], true), ("/a.json?eventIds=false", [], false),
            ("/a.json", [("Last-Event-ID", "5-x")], true), ("/a.json", [("Last-Event-ID", "")], true),
            ("/a.json", [("Origin", "http://app.example")], true), ("/a.json", [("Sec-Fetch-Mode", "cors")], false),
            ("/a.json?eventIds=false", [("Origin", "http://app.example")], false),
            ("/a.json", [("Sec-Fetch-Site", "same-origin")], true), ("/a.json", [("Sec-Fetch-Dest", "empty")], true),
            ("/a.json", [("User-Agent", "firebase-arduino"), ("Accept", "text/event-stream")], false),
            ("/a.json?lastEventId=5-x", [], false),
        ] as [(String, [(String, String)], Bool)] {
            let isWanted = try TestCall("GET", target, headers).with { call, _ in call.wantsEventIDs }
            #expect(isWanted == wanted, "\(target) \(headers)")
        }
    }

    @Test func tags() throws {
        for (headers, wanted) in [
            ([], false), ([("X-Firebase-ETag", "true")], true), ([("X-Firebase-ETag", "TRUE")], true),
            ([("X-Firebase-ETag", "1")], false), ([("If-None-Match", "x")], true), ([("If-Match", "x")], false),
        ] as [([(String, String)], Bool)] {
            let isWanted = try TestCall("GET", "/a.json", headers).with { call, _ in call.wantsETag }
            #expect(isWanted == wanted, "\(headers)")
        }
    }

    @Test func originsHaveUserAndAddress() throws {
        let user = Identity(AuthContext(auth: Node(children: [(Key("uid"), .string("u"))])))
        let origin = try TestCall("PUT", "/a.json", as: user).with { call, _ in call.origin }
        #expect(origin == Origin(uid: "u", isAdmin: false, via: .rest, address: "127.0.0.1"))
    }

    // MARK: Permission to read

    private func refusal(_ rules: String, _ target: String, _ identity: Identity, root: Node = .null) throws
        -> RESTError?
    {
        let set = try RuleSet(json: Array(rules.utf8))
        let snapshot = Snapshot(
            seq: 1, root: root, rules: RulesVersion(seq: 1, set: set, enforcesIndexes: true))
        return try TestCall("GET", target, as: identity).with { call, _ in ReadPermission.refusal(of: call, snapshot) }
    }

    private static let anonymousClient = Identity.anonymous(isLoopback: true)
    private static let admin = Identity(.admin)

    @Test func rulesDecideReads() throws {
        let rules = "{\"rules\":{\"a\":{\".read\":true},\"b\":{\".read\":false}}}"
        #expect(try refusal(rules, "/a.json", Self.anonymousClient) == nil)
        #expect(try refusal(rules, "/a/x.json", Self.anonymousClient) == nil)
        #expect(try refusal(rules, "/b.json", Self.anonymousClient) == .permissionDenied)
        #expect(try refusal(rules, "/.json", Self.anonymousClient) == .permissionDenied)
        #expect(try refusal(rules, "/b.json", Self.admin) == nil)
    }

    @Test func queriesNeedTheirIndexes() throws {
        let rules = "{\"rules\":{\".read\":true,\"a\":{\".indexOn\":\"x\"}}}"
        #expect(try refusal(rules, "/a.json?orderBy=\"x\"", Self.anonymousClient) == nil)
        #expect(try refusal(rules, "/a.json?orderBy=\"$key\"", Self.anonymousClient) == nil)
        let error = try #require(try refusal(rules, "/a.json?orderBy=\"y\"", Self.anonymousClient))
        #expect(error.status == 400 && error.message.contains("y"))
        // A caller that the rules refuse learns nothing about indexes.
        let shut = "{\"rules\":{}}"
        #expect(try refusal(shut, "/a.json?orderBy=\"y\"", Self.anonymousClient) == .permissionDenied)
    }
}
