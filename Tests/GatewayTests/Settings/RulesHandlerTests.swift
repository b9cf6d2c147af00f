import Gateway
import Runtime
import TestSupport
import Testing

/// Tests of rules over HTTP: reading, trying, storing and applying them.
@Suite struct RulesHandlerTests {
    private static let owner = ["Authorization": "Bearer owner"]
    private static let path = "/.settings/rules.json"
    private static let open = "{\"rules\":{\".read\":true,\".write\":true}}"
    private static let commented = "{ // all may read\n  \"rules\": { \".read\": true }\n}"

    @Test func rulesAreStoredAndHold() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            let before = try client.request("GET", Self.path, Self.owner)
            #expect(before.status == 200)
            let put = try client.request("PUT", Self.path, Self.owner, body: Self.commented)
            #expect(put.status == 200)
            #expect(put.text == "{\"status\":\"ok\"}")
            #expect(put.headers["x-pathmirror-seq"] == "1")
            #expect(try client.request("GET", Self.path, Self.owner).text == Self.commented)
            #expect(try client.request("GET", "/a.json").status == 200)
            #expect(try client.request("PUT", "/a.json", body: "1").status == 401)
            #expect(try client.request("PUT", "/a.json", Self.owner, body: "1").status == 200)
        }
    }

    @Test func strictRulesHaveNoComments() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            _ = try client.request("PUT", Self.path, Self.owner, body: Self.commented)
            let strict = try client.request("GET", "\(Self.path)?format=strict", Self.owner).text
            #expect(!strict.contains("//") && strict.contains("\".read\""))
        }
    }

    @Test func badRulesChangeNothing() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            _ = try client.request("PUT", Self.path, Self.owner, body: Self.open)
            for text in ["", "{", "[]", "{\"rules\":1}", "{\"rules\":{\".read\":\"nonsense(\"}}", "{\"rulez\":{}}"] {
                let answer = try client.request("PUT", Self.path, Self.owner, body: text)
                #expect(answer.status == 400, "\(text)")
                #expect(answer.text.contains("error"))
            }
            #expect(try client.request("GET", Self.path, Self.owner).text == Self.open)
        }
    }

    @Test func trialsChangeNothing() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            _ = try client.request("PUT", Self.path, Self.owner, body: Self.open)
            let good = try client.request("PUT", "\(Self.path)?dryRun=true", Self.owner, body: "{\"rules\":{}}")
            #expect(good.status == 200 && good.text == "{\"status\":\"ok\"}")
            #expect(good.headers["x-pathmirror-seq"] == nil)
            #expect(try client.request("PUT", "\(Self.path)?dryRun=true", Self.owner, body: "{").status == 400)
            #expect(try client.request("GET", Self.path, Self.owner).text == Self.open)
        }
    }

    @Test func rulesAreForAdministrators() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            for (method, body) in [("GET", nil), ("PUT", Self.open), ("DELETE", nil)] as [(String, String?)] {
                #expect(try client.request(method, Self.path, body: body).status == 401)
                #expect(try client.request(method, "\(Self.path)?auth=x", body: body).status == 401)
            }
            let acting = "auth_variable_override=%7B%22uid%22%3A%22u%22%7D"
            #expect(try client.request("GET", "\(Self.path)?auth=owner&\(acting)").status == 401)
        }
    }

    @Test func namespacesHaveTheirOwn() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            _ = try client.request("PUT", "\(Self.path)?ns=one", Self.owner, body: "{\"rules\":{}}")
            #expect(try client.request("GET", "/a.json?ns=one").status == 401)
            #expect(try client.request("GET", "/a.json?ns=two").status == 200)
            #expect(try client.request("GET", "\(Self.path)?ns=two", Self.owner).text != "{\"rules\":{}}")
        }
    }

    /// Checks that new rules end the streams that they deny, with a notice to the client.
    @Test func newRulesEndStreams() throws {
        try withGateway { gateway in
            let stream = try WebClient(gateway.port)
            try stream.send("GET", "/a.json", ["Accept": "text/event-stream"])
            #expect(try stream.head().status == 200)
            #expect(try stream.event().name == "put")
            let client = try WebClient(gateway.port)
            _ = try client.request("PUT", Self.path, Self.owner, body: "{\"rules\":{}}")
            let last = try stream.event()
            #expect(last.name == "cancel" && last.data == "null")
            #expect(stream.isAtEnd())
        }
    }

    @Test func outagesAreSaid() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let gateway = try TestGateway(proxy.url)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            #expect(try eventually { try client.request("PUT", Self.path, Self.owner, body: Self.open).status == 200 })
            proxy.setDown(true)
            #expect(try eventually { try client.request("GET", "/.health/ready").status == 503 })
            let refused = try client.request("PUT", Self.path, Self.owner, body: "{\"rules\":{}}")
            #expect(refused.status == 503)
            #expect(refused.headers["retry-after"] == "1")
            #expect(try client.request("GET", Self.path, Self.owner).text == Self.open, "what is in memory is served")
        }
    }
}
