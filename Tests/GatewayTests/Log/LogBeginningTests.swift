import Postgres
import TestSupport
import Testing

@testable import Gateway

/// Goal: a request that names no entry is answered, whatever retention removes meanwhile; one that names a removed entry is told so.
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
            // Entries are gone, and the namespace's row, which is read first, does not say so yet.
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
}
