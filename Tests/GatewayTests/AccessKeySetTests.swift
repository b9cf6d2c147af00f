import Crypto
import HTTPClient
import HTTPServer
import Runtime
import Testing
import Tokens

@testable import Gateway

struct AccessKeySetTests {
    private func key() throws -> RSAPublicKey {
        try RSAPublicKey(certificatePEM: try TestSigner.first.get().certificatePEM)
    }

    private func machine(_ change: (inout KeySetSettings) -> Void = { _ in }) -> KeySetMachine {
        var settings = KeySetSettings()
        change(&settings)
        return KeySetMachine(settings)
    }

    // MARK: State machine

    @Test func `keys are fetched once, when first asked for`() throws {
        var machine = machine()
        var look = machine.look(for: "a", now: 0)
        #expect(look.lookup.name == "wait")
        #expect(look.startsFetch)
        look = machine.look(for: "b", now: 1)
        #expect(look.lookup.name == "wait")
        #expect(!look.startsFetch)
        machine.fetched(["a": try key()], life: 100_000, now: 2)
        #expect(machine.settled("a", now: 2).name == "key")
        #expect(machine.settled("b", now: 2).name == "unknown")
        look = machine.look(for: "a", now: 3)
        #expect(look.lookup.name == "key")
        #expect(!look.startsFetch)
    }

    @Test func `keys past their life are used while new ones are fetched`() throws {
        var machine = machine()
        _ = machine.look(for: "a", now: 0)
        machine.fetched(["a": try key()], life: 100_000, now: 0)
        #expect(!machine.look(for: "a", now: 99_999).startsFetch)
        let look = machine.look(for: "a", now: 100_000)
        #expect(look.lookup.name == "key")
        #expect(look.startsFetch)
        #expect(!machine.look(for: "a", now: 100_001).startsFetch)
        machine.fetched([:], life: 100_000, now: 100_002)
        // The issuer has withdrawn the key.
        #expect(machine.look(for: "a", now: 100_003).lookup.name == "unknown")
    }

    @Test func `during an outage keys are kept, but not for ever`() throws {
        var machine = machine { $0.maxStaleMilliseconds = 1_000_000 }
        _ = machine.look(for: "a", now: 0)
        machine.fetched(["a": try key()], life: 100_000, now: 0)
        var fetches = 0
        for now in stride(from: Int64(100_000), to: 1_100_000, by: 500) {
            let look = machine.look(for: "a", now: now)
            #expect(look.lookup.name == "key")
            if look.startsFetch {
                fetches += 1
                machine.failed(now: now)
            }
        }
        // Fetches are retried after 1, 2, 4 … s, and later once a minute.
        #expect((15...30).contains(fetches))
        let look = machine.look(for: "a", now: 1_300_000)
        #expect(look.lookup.name == "wait")
        #expect(look.startsFetch)
        machine.failed(now: 1_300_000)
        #expect(machine.settled("a", now: 1_300_000).name == "unavailable")
        #expect(machine.look(for: "a", now: 1_300_001).lookup.name == "unavailable")
    }

    @Test func `unknown keys make it fetch, but seldom`() throws {
        var machine = machine()
        _ = machine.look(for: "a", now: 0)
        machine.fetched(["a": try key()], life: 10_000_000, now: 0)
        var fetches = 0
        for now in Int64(1)..<60_000 {
            let look = machine.look(for: "made-up-\(now)", now: now)
            guard look.startsFetch else {
                #expect(look.lookup.name == "unknown")
                continue
            }
            fetches += 1
            machine.fetched(["a": try key()], life: 10_000_000, now: now)
        }
        #expect(fetches == 1)
        #expect(machine.look(for: "a", now: 60_000).lookup.name == "key")
    }

    @Test func `lives are bounded`() throws {
        for (life, expected) in [(nil, 3_600_000), (0, 60_000), (Int64.max, 24 * 3_600_000)] as [(Int64?, Int64)] {
            var machine = machine()
            _ = machine.look(for: "a", now: 0)
            machine.fetched(["a": try key()], life: life, now: 0)
            #expect(!machine.look(for: "a", now: expected - 1).startsFetch)
            #expect(machine.look(for: "a", now: expected).startsFetch)
        }
    }

    // MARK: Documents

    @Test func `both forms of key sets`() throws {
        let pem = try TestSigner.first.get().certificatePEM
        let certificates = try KeySetDocument(
            ClaimsWriter.encode(["k1": .string(pem), "k2": "not a certificate"] as Claims))
        #expect(Array(certificates.keys.keys) == ["k1"])
        let jwks = #"""
            {"keys":[
              {"kty":"RSA","kid":"good","use":"sig","alg":"RS256","e":"AQAB","n":"@"},
              {"kty":"RSA","kid":"for encryption","use":"enc","e":"AQAB","n":"@"},
              {"kty":"RSA","kid":"another algorithm","alg":"RS512","e":"AQAB","n":"@"},
              {"kty":"EC","kid":"curve","crv":"P-256","x":"AA","y":"AA"},
              {"kty":"oct","kid":"secret","k":"AAAA"},
              {"kty":"RSA","e":"AQAB","n":"@"},
              {"kty":"RSA","kid":"weak","e":"AQAB","n":"AAAA"}, 7
            ]}
            """#
        // A modulus of 2,048 bits, odd, with unknown factors.
        let modulus = Base64URL.encode([UInt8](repeating: 0xC5, count: 256))
        let text = String(jwks.split(separator: "@", omittingEmptySubsequences: false).joined(separator: modulus))
        #expect(Array(try KeySetDocument(Array(text.utf8)).keys.keys) == ["good"])
        for bad in ["", "[]", "{}", "null", #"{"keys":[]}"#, #"{"keys":{}}"#, #"{"a":1}"#, "<html>"] {
            #expect(throws: KeySetDocument.Failure.self) { try KeySetDocument(Array(bad.utf8)) }
        }
    }

    @Test(
        arguments: [
            ("public, max-age=100, must-revalidate", nil, 100_000), ("max-age=100", "40", 60_000),
            ("max-age=100", "400", 0),
            ("Max-Age=7", nil, 7_000), ("no-store", nil, 0), ("no-cache, max-age=9", nil, 0), ("max-age=-1", nil, nil),
            ("max-age=x", nil, nil), ("max-age=99999999999999999999", nil, nil), ("private", nil, nil), (nil, nil, nil),
        ] as [(String?, String?, Int64?)])
    func `lives of responses`(control: String?, age: String?, expected: Int64?) {
        var headers: [(name: String, value: String)] = []
        if let control { headers.append(("cache-control", control)) }
        if let age { headers.append(("age", age)) }
        #expect(KeySetDocument.life(of: ClientResponse(status: 200, headers: headers, body: [])) == expected)
    }

    // MARK: With a server

    @Test func `waiting callers are answered together, by one fetch`() throws {
        let server = FakeKeyServer()
        server.serve(["a": try TestSigner.first.get().certificatePEM])
        server.hold()
        let set = server.makeKeySet()
        #expect(set.key("a").name == "wait")
        let names = Condition<[String]>([])
        for id in ["a", "b", "a"] { set.whenKnown(id) { lookup in names.broadcast { $0.append(lookup.name) } } }
        server.release()
        #expect(names.withLock { $0 } == ["key", "unknown", "key"])
        #expect(server.fetches == 1)
        set.whenKnown("a") { lookup in names.broadcast { $0.append(lookup.name) } }
        #expect(names.withLock { $0.count } == 4)
        #expect(set.key("a").name == "key")
    }

    @Test func `a server that is down, or talks nonsense, leaves it unavailable`() throws {
        let server = FakeKeyServer()
        let set = server.makeKeySet()
        let names = Condition<[String]>([])
        server.fail()
        set.whenKnown("a") { lookup in names.broadcast { $0.append(lookup.name) } }
        let other = server.makeKeySet()
        server.serve(body: Array("<html>".utf8))
        other.whenKnown("a") { lookup in names.broadcast { $0.append(lookup.name) } }
        let third = server.makeKeySet()
        server.serve(body: Array("{}".utf8), status: 500)
        third.whenKnown("a") { lookup in names.broadcast { $0.append(lookup.name) } }
        #expect(names.withLock { $0 } == ["unavailable", "unavailable", "unavailable"])
    }

    @Test func `over HTTP`() throws {
        let pem = try TestSigner.first.get().certificatePEM
        let body = ClaimsWriter.encode(["k": .string(pem)] as Claims)
        let server = try HTTPServer(settings: HTTPServerSettings()) { _ in
            FixedHandler(status: 200, headers: ["Cache-Control": "max-age=60"], body: body)
        }
        try server.start()
        defer { server.stop(deadlineMilliseconds: 0) }
        let client = try HTTPClient()
        defer { client.stop() }
        let port = try #require(server.boundAddresses.first?.port)
        let settings = IDTokenSettings(
            issuer: "i", audience: "a", keySetURL: "http://127.0.0.1:\(port)/keys", client: client)
        let name = Condition<String?>(nil)
        let set = KeySet(settings, logger: .silent)
        set.whenKnown("k") { lookup in name.broadcast { $0 = lookup.name } }
        #expect(name.wait(milliseconds: 30_000) { $0 } == "key")
    }

    @Test(arguments: [
        ("http://127.0.0.1:80/x", true), ("http://localhost/", true), ("http://[::1]:9/", true),
        ("HTTP://localhost", true),
        ("https://localhost/", false), ("http://localhost.evil.example/", false),
        ("http://127.0.0.1@evil.example/", false),
        ("http://127.0.0.1.evil.example/", false), ("http://evil.example/127.0.0.1", false),
        ("http://192.0.2.1/", false),
        ("http://localhost:80@evil.example/", false), ("ftp://localhost/", false),
    ])
    func `plain HTTP is for this machine only`(url: String, isLoopback: Bool) {
        #expect(IDTokenSettings.isLoopback(url) == isLoopback)
    }
}

/// Answers all requests with the same response.
private final class FixedHandler: HTTPLoopHandler {
    private let status: Int
    private let headers: HTTPHeaders
    private let body: [UInt8]

    init(status: Int, headers: HTTPHeaders, body: [UInt8]) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) {
        exchange.respond(status: status, headers: headers, body: body)
    }
    func loopWillDrain() {}
    func loopWillStop() {}
}
