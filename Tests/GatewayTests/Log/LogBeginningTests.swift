import Postgres
import TestSupport
import Testing

@testable import Gateway

/// Checks that a request without a seq is answered even if retention removes entries meanwhile, and that a request for
/// a removed entry is refused with that reason.
@Suite struct LogBeginningTests {
    private static let secret = "an administrator's secret 0123456789 abc"
    private static let offset = "0000000000000000001_0000000000_0000000000_"

    @Test func theOldestIsRemovedAfterItWasLookedUp() throws {
        try withDatabase { url in
            let gateway = try TestGateway(url, secret: Self.secret)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            for value in 1...5 {
                #expect(try client.request("PUT", "/a.json", body: "\(value)").status == 200)
            }
            let sql = try PostgresConnection(url)
            defer { sql.close() }
            // The entries are removed, but the namespace's row, which the gateway reads first, does not reflect that
            // yet.
            try sql.executeScript("delete from pathmirror.log where seq <= 3")
            let administrator = ["Authorization": "Bearer " + Self.secret]
            for query in ["", "?offset=-1", "?offset=-1&live=long-poll"] {
                let answer = try client.request("GET", "/.log" + query, administrator)
                #expect(answer.status == 200 && answer.headers["stream-up-to-date"] == "true")
                #expect(!answer.text.contains("\"seq\":3") && answer.text.contains("\"seq\":4"))
            }
            for query in ["", "&live=long-poll", "&live=sse"] {
                let answer = try client.request("GET", "/.log?offset=\(Self.offset)" + query, administrator)
                #expect(answer.status == 410 && answer.headers["x-pathmirror-oldest-seq"] == "4")
            }
        }
    }

    /// Checks that the returned offset names the log's history even if retention removes all remaining entries after
    /// the oldest one was looked up.
    @Test func allIsRemovedAfterTheOldestWasLookedUp() throws {
        try withDatabase { url in
            let gateway = try TestGateway(url, secret: Self.secret)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            for value in 1...3 {
                #expect(try client.request("PUT", "/a.json", body: "\(value)").status == 200)
            }
            // The namespace's row, which the gateway reads first, does not reflect the removal yet.
            try runScript("delete from pathmirror.log", on: url)
            let administrator = ["Authorization": "Bearer " + Self.secret]
            let empty = try client.request("GET", "/.log?offset=-1", administrator)
            #expect(empty.status == 200 && empty.text == "[]")
            let next = "/.log?offset=" + (try #require(empty.headers["stream-next-offset"]))
            try runScript("update pathmirror.namespace set last_batch = gen_random_uuid()", on: url)
            #expect(try client.request("GET", next, administrator).status == 410)
        }
    }

    /// Checks that the returned offset names the log's history even if no entry is retained.
    @Test(arguments: ["", "?offset=-1", "?offset=now"]) func nothingIsRetained(_ query: String) throws {
        try withDatabase { url in
            let gateway = try TestGateway(url, secret: Self.secret)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            for value in 1...3 {
                #expect(try client.request("PUT", "/a.json", body: "\(value)").status == 200)
            }
            try runScript("delete from pathmirror.log; update pathmirror.namespace set retained_from = 4", on: url)
            let administrator = ["Authorization": "Bearer " + Self.secret]
            let empty = try client.request("GET", "/.log" + query, administrator)
            #expect(empty.status == 200 && empty.text == "[]")
            let next = "/.log?offset=" + (try #require(empty.headers["stream-next-offset"]))
            #expect(try client.request("GET", next, administrator).status == 200)
            // Simulates a failover: the entry at the head is a different one.
            try runScript("update pathmirror.namespace set last_batch = gen_random_uuid()", on: url)
            #expect(try client.request("GET", next, administrator).status == 410)
        }
    }

    /// Checks that a reader learns where to continue after a damaged entry, even if that entry is the oldest.
    @Test func anEntryIsDamaged() throws {
        try withDatabase { url in
            let gateway = try TestGateway(url, secret: Self.secret)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            for value in 1...4 {
                #expect(try client.request("PUT", "/a.json", body: "\(value)").status == 200)
            }
            try runScript("update pathmirror.log set parts = 3 where seq = 2", on: url)
            let administrator = ["Authorization": "Bearer " + Self.secret]
            let first = try client.request("GET", "/.log?offset=-1", administrator)
            #expect(first.status == 200 && first.text.contains("\"seq\":1") && !first.text.contains("\"seq\":2"))
            #expect(first.headers["stream-up-to-date"] == nil)
            let damaged = try #require(first.headers["stream-next-offset"])
            for query in ["", "&live=long-poll", "&live=sse"] {
                let answer = try client.request("GET", "/.log?offset=" + damaged + query, administrator)
                #expect(answer.status == 410 && answer.text.contains("Entry 2 is damaged"))
                let next = try #require(answer.headers["stream-next-offset"])
                let rest = try client.request("GET", "/.log?offset=" + next, administrator)
                #expect(rest.status == 200 && rest.headers["stream-up-to-date"] == "true")
                #expect(!rest.text.contains("\"seq\":2") && rest.text.contains("\"seq\":3"))
            }
            try runScript(
                "delete from pathmirror.log where seq = 1; update pathmirror.namespace set retained_from = 2", on: url)
            let oldest = try client.request("GET", "/.log?offset=-1", administrator)
            #expect(oldest.status == 410 && oldest.text.contains("Entry 2 is damaged"))
            let next = try #require(oldest.headers["stream-next-offset"])
            let rest = try client.request("GET", "/.log?offset=" + next, administrator)
            #expect(rest.status == 200 && rest.headers["stream-up-to-date"] == "true")
            #expect(!rest.text.contains("\"seq\":2") && rest.text.contains("\"seq\":3"))
        }
    }

    @Test func aRefusalNamesTheHeadOnce() throws {
        try withDatabase { url in
            let gateway = try TestGateway(url, secret: Self.secret)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            #expect(try client.request("PUT", "/a.json", body: "1").status == 200)
            let beyond = "0000000000000000099_0000000000_0000000000_"
            try client.send("GET", "/.log?offset=" + beyond, ["Authorization": "Bearer " + Self.secret])
            let lines = try client.read(through: "\r\n\r\n").split(separator: "\r\n").map { $0.lowercased() }
            #expect(lines.first?.contains("410") == true)
            #expect(lines.filter { $0.hasPrefix("x-pathmirror-seq:") } == ["x-pathmirror-seq: 1"])
        }
    }
}
