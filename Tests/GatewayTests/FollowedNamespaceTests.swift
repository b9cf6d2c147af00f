import Engine
import Gateway
import LogStore
import Postgres
import TestSupport
import Testing

/// Tests of the answers to clients of a namespace that follows an upstream: they read, and their writes are refused.
@Suite struct FollowedNamespaceTests {
    private static let owner = ["Authorization": "Bearer owner"]
    private static let text = "The namespace follows an upstream database and is read-only. Write to the upstream."

    /// Runs `body` with a gateway whose namespace has a value at `/a` and follows an upstream.
    private func withFollowed(keepRules: Bool = false, _ body: (WebClient, LogConnection, Int64) throws -> Void) throws
    {
        try withDatabase { url in
            let gateway = try TestGateway(url)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            #expect(try client.request("PUT", "/a.json", body: "1").status == 200)
            let connection = try LogConnection(url)
            defer { connection.close() }
            let name = try #require(try connection.allNamespaces().first?.name)
            try body(client, connection, try connection.startFollowing(name, keepRules: keepRules))
        }
    }

    @Test(arguments: ["PUT", "POST", "PATCH", "DELETE"]) func writesAreRefused(method: String) throws {
        try withFollowed { client, connection, id in
            for headers in [[:], Self.owner] {
                let answer = try client.request(method, "/b.json", headers, body: method == "DELETE" ? "" : "{\"c\":1}")
                #expect(answer.status == 405)
                #expect(answer.headers["allow"] == "GET, HEAD, OPTIONS")
                #expect(answer.text == "{\n  \"error\" : \"\(Self.text)\"\n}\n")
            }
            #expect(try client.request("GET", "/.json").text == "{\"a\":1}")
            #expect(try connection.namespace(id: id)?.head == 1)
        }
    }

    @Test func conditionalWritesAreRefused() throws {
        try withFollowed { client, _, _ in
            let etag = try #require(try client.request("GET", "/a.json", ["X-Firebase-ETag": "true"]).headers["etag"])
            for condition in [etag, "other"] {
                #expect(try client.request("PUT", "/a.json", ["if-match": condition], body: "2").status == 405)
            }
        }
    }

    /// A client without permission is notified of that, and of nothing about the namespace.
    @Test func permissionComesFirst() throws {
        try withFollowed(keepRules: true) { client, _, _ in
            let rules = "{\"rules\":{\".read\":true,\"open\":{\".write\":true}}}"
            let put = try client.request("PUT", "/.settings/rules.json", Self.owner, body: rules)
            #expect(put.status == 200)
            #expect(try client.request("PUT", "/closed.json", body: "1").status == 401)
            #expect(try client.request("PUT", "/open.json", body: "1").status == 405)
        }
    }

    @Test func theUpstreamsRulesCannotBeReplaced() throws {
        try withFollowed { client, connection, id in
            let path = "/.settings/rules.json"
            let answer = try client.request("PUT", path, Self.owner, body: "{\"rules\":{}}")
            #expect(answer.status == 405 && answer.text.contains(Self.text))
            #expect(answer.headers["allow"] == "GET, HEAD, OPTIONS")
            #expect(try client.request("PUT", "\(path)?dryRun=true", Self.owner, body: "{\"rules\":{}}").status == 200)
            #expect(try connection.rulesHistory(id).isEmpty)
        }
    }

    @Test func clientsWriteAgainAfterwards() throws {
        try withFollowed { client, connection, id in
            let refused = try client.request("PUT", "/b.json", body: "1")
            #expect(refused.status == 405)
            #expect(try connection.removeFollow(id))
            #expect(try eventually { try client.request("PUT", "/b.json", body: "1").status == 200 })
        }
    }
}
