import Engine
import LogStore
import TestSupport
import Testing
import Tree

/// Checks that refused requests count like allowed ones, whether the namespace is in memory or not.
@Suite struct RefusedReadsTests {
    @Test(arguments: [false, true]) func refusedRequestsCount(isLoaded: Bool) throws {
        try withDatabase { url in
            let gateway = try TestGateway(url)
            defer { gateway.stop() }
            let connection = try LogConnection(url)
            defer { connection.close() }
            let record = try #require(try connection.namespace(named: "test", creating: true))
            _ = try connection.setRules(
                record.id, source: Array(#"{"rules": {"open": {".read": true, ".write": true}}}"#.utf8),
                origin: Origin(uid: nil, isAdmin: true, via: .cli, address: nil))
            let client = try WebClient(gateway.port)
            if isLoaded { _ = try client.request("GET", "/open.json?ns=test") }
            let before = try counts(client)
            #expect(try client.request("GET", "/a.json?ns=test").status == 401)
            #expect(try client.request("GET", "/a.json?ns=test", ["X-Pathmirror-Min-Seq": "9"]).status == 401)
            #expect(try client.request("GET", "/a.json?ns=test", ["Accept": "text/event-stream"]).status == 401)
            #expect(try client.request("PUT", "/a.json?ns=test", body: "1").status == 401)
            #expect(
                try client.request("PUT", "/a.json?ns=test", ["X-Pathmirror-Min-Seq": "x"], body: "1").status == 400)
            let after = try counts(client)
            #expect(after.reads - before.reads == 2 && after.writes - before.writes == 2)
            #expect((gateway.engine.engine.liveNamespace("test") != nil) == isLoaded)
        }
    }

    private func counts(_ client: WebClient) throws -> (reads: Int, writes: Int) {
        let lines = try client.request("GET", "/.metrics").text.split(separator: "\n")
        func value(_ name: String) -> Int {
            let line = lines.first { $0.hasPrefix(name + " ") }
            return Int(line?.split(separator: " ").last ?? "") ?? -1
        }
        func requests(_ operation: String) -> Int {
            value(#"pathmirror_rest_requests_total{operation="\#(operation)"}"#)
        }
        return (requests("read"), requests("write"))
    }
}
