import Gateway
import HTTPServer
import TestSupport
import Testing

/// Tests of which handler answers each request, over a real server, by one table of requests and expected answers.
@Suite struct RouterTests {
    private struct Wanted {
        let method: String
        let target: String
        let status: Int
        let type: String?
        var headers: [String: String] = [:]
        var body: String?
    }

    private static let json = "application/json; charset=utf-8"

    private static let requests = [
        Wanted(method: "GET", target: "/.json", status: 200, type: json),
        Wanted(method: "HEAD", target: "/a.json", status: 200, type: json),
        Wanted(method: "PUT", target: "/a.json", status: 200, type: json, body: "1"),
        Wanted(method: "POST", target: "/a/list.json", status: 200, type: json, body: "1"),
        Wanted(method: "PATCH", target: "/a.json", status: 200, type: json, body: "{\"b\":1}"),
        Wanted(method: "PUT", target: "/a/.priority.json", status: 200, type: json, body: "1"),
        Wanted(method: "DELETE", target: "/a.json", status: 200, type: json),
        Wanted(method: "OPTIONS", target: "/a.json", status: 200, type: nil),
        Wanted(method: "OPTIONS", target: "/.metrics", status: 200, type: nil),
        Wanted(method: "MKCOL", target: "/a.json", status: 405, type: json),
        Wanted(method: "GET", target: "/a", status: 404, type: "text/plain; charset=utf-8"),
        Wanted(method: "GET", target: "/a.json?print=x", status: 400, type: json),
        Wanted(method: "GET", target: "/a.json?ns=no.name", status: 400, type: json),
        Wanted(method: "GET", target: "/a%5Bb.json", status: 400, type: json),
        Wanted(method: "POST", target: "/a.json?x-http-method-override=x", status: 400, type: json, body: "1"),
        Wanted(method: "PUT", target: "/a.json?orderBy=%22$key%22", status: 400, type: json, body: "1"),
        Wanted(method: "PATCH", target: "/a.json", status: 400, type: json, headers: ["if-match": "x"], body: "{}"),
        Wanted(method: "GET", target: "/a.json", status: 400, type: json, headers: ["if-match": "x"]),
        Wanted(
            method: "GET", target: "/a.json", status: 400, type: json, headers: ["X-Pathmirror-Min-Seq": "x"]),
        Wanted(
            method: "GET", target: "/a.json", status: 400, type: json, headers: ["X-Pathmirror-Min-Seq": "-1"]),
        Wanted(
            method: "GET", target: "/a.json", status: 200, type: json, headers: ["X-Pathmirror-Min-Seq": "0"]),
        Wanted(
            method: "GET", target: "/a.json", status: 503, type: json, headers: ["X-Pathmirror-Min-Seq": "999"]),
        Wanted(
            method: "GET", target: "/a.json?shallow=true", status: 400, type: json,
            headers: ["Accept": "text/event-stream"]),
        Wanted(method: "GET", target: "/.health/live", status: 200, type: json),
        Wanted(method: "GET", target: "/.health/ready", status: 200, type: json),
        Wanted(method: "GET", target: "/.metrics", status: 200, type: "text/plain; version=0.0.4; charset=utf-8"),
        Wanted(method: "PUT", target: "/.metrics", status: 404, type: json, body: "1"),
        Wanted(method: "GET", target: "/.nothing", status: 404, type: json),
        Wanted(method: "GET", target: "/.info/connected.json", status: 404, type: json),
        Wanted(method: "PUT", target: "/.settings/other.json", status: 404, type: json, body: "1"),
        Wanted(method: "GET", target: "/a/.info.json", status: 400, type: json),
        Wanted(method: "GET", target: "/.ws", status: 400, type: json),
        Wanted(
            method: "GET", target: "/.ws?v=5", status: 400, type: json,
            headers: [
                "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version": "8",
            ]),
        Wanted(
            method: "GET", target: "/.ws?v=4", status: 400, type: json,
            headers: [
                "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version": "13",
            ]),
        Wanted(method: "PUT", target: "/.lp", status: 405, type: json, body: "1"),
        Wanted(method: "GET", target: "/.lp?start=t", status: 400, type: json),
        Wanted(method: "GET", target: "/.lp?start=t&v=5", status: 400, type: json),
        Wanted(method: "GET", target: "/.lp?start=t&v=5&cb=a%3Cb", status: 400, type: json),
        Wanted(
            method: "GET", target: "/.lp?start=t&v=5&cb=1", status: 200,
            type: "application/javascript; charset=utf-8"),
        Wanted(
            method: "GET", target: "/.lp?id=1&pw=2", status: 200, type: "application/javascript; charset=utf-8"),
        Wanted(method: "GET", target: "/.lp?dframe=t&id=a&pw=b", status: 200, type: "text/html; charset=utf-8"),
        Wanted(method: "GET", target: "/.lp?dframe=t&id=a&pw=%22", status: 400, type: json),
        Wanted(method: "GET", target: "/.settings/rules.json", status: 401, type: json),
        Wanted(
            method: "GET", target: "/.settings/rules.json", status: 200, type: json,
            headers: ["Authorization": "Bearer owner"]),
        Wanted(
            method: "DELETE", target: "/.settings/rules.json", status: 405, type: json,
            headers: ["Authorization": "Bearer owner"]),
        Wanted(method: "GET", target: "/a.json?auth=nonsense", status: 401, type: json),
    ]

    @Test func everyRequestHasItsAnswer() throws {
        try withGateway {
            $0.minSeqWaitMilliseconds = 20
        } _: { gateway in
            let client = try WebClient(gateway.port)
            for wanted in Self.requests {
                let answer = try client.request(wanted.method, wanted.target, wanted.headers, body: wanted.body)
                #expect(answer.status == wanted.status, "\(wanted.method) \(wanted.target) \(answer.text)")
                if let type = wanted.type {
                    #expect(answer.headers["content-type"] == type, "\(wanted.method) \(wanted.target)")
                }
            }
        }
    }

    @Test(arguments: [
        "/.nothing", "/.a.json", "/.info/connected.json", "/.inspect/databases.json", "/.priority", "/..",
    ])
    func unknownPathsThatBeginWithADot(target: String) throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            for method in ["GET", "PUT", "PATCH", "DELETE"] {
                let answer = try client.request(method, target, body: method == "GET" ? nil : "1")
                #expect(answer.status == 404 && answer.text.contains("There is nothing at this path"), "\(method)")
            }
        }
    }

    /// Checks that requests on one connection are answered in order, regardless of their handlers.
    @Test func answersKeepTheirOrder() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            let targets = ["/a.json", "/.health/live", "/.nothing", "/.metrics", "/b.json?ns=other", "/a.json"]
            for target in targets { try client.send("GET", target) }
            let statuses = try targets.map { _ in try client.answer().status }
            #expect(statuses == [200, 200, 404, 200, 200, 200])
        }
    }

    @Test func largeBodiesAreForAdministrators() throws {
        let strict = { (settings: inout HTTPServerSettings) in settings.maxPlainBodyBytes = 1_000 }
        try withGateway(server: strict) { gateway in
            let long = "\"" + String(repeating: "x", count: 2_000) + "\""
            let refused = try? WebClient(gateway.port).request("PUT", "/a.json", body: long)
            #expect(refused == nil || refused?.status == 413)
            let owner = try WebClient(gateway.port)
            #expect(try owner.request("PUT", "/a.json?print=silent&auth=owner", body: long).status == 204)
        }
    }

    /// Checks that all requests that wait for a namespace are answered once it is loaded.
    @Test func manyWaitForOneNamespace() throws {
        try withGateway { gateway in
            let clients = try (0..<20).map { _ in try WebClient(gateway.port) }
            for client in clients { try client.send("GET", "/a.json?ns=fresh") }
            for client in clients { #expect(try client.answer().text == "null") }
        }
    }
}
