import Feeds
import Runtime
import TestSupport
import Testing
import Tokens
import Tree

@testable import Gateway

/// Checks that a feed's token gives access to the log below the feed's base path, and to no other part of the log.
@Suite struct LogOfFeedTests {
    private static let secret = "an administrator's secret 0123456789 abc"

    private struct Away: Error {}

    private func token(_ feed: String, ns: String = "default") -> [String: String] {
        let now = Clock.unixMilliseconds / 1_000
        let claims: Claims = [
            "v": 0, "iat": .integer(now), "exp": .integer(now + 100), "feed": .string(feed), "ns": .string(ns),
        ]
        return ["Authorization": "Bearer " + JWT.mint(claims, secret: Array(Self.secret.utf8))]
    }

    private func withFeeds(_ body: (WebClient) throws -> Void) throws {
        try withDatabase { url in
            let gateway = try TestGateway(url, secret: Self.secret) { feed, access, completion in
                // The completion may be called on another thread.
                _ = Thread(name: "base paths") {
                    guard feed.name != "unclear" else { return completion(.failure(Away())) }
                    let isThere = feed == FeedName(namespace: "default", name: "orders")
                    completion(.success(isThere && access != .any ? Path(splitting: "orders") : nil))
                }
            }
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            for (path, value) in [("orders/o1", "1"), ("users/ada", "2"), ("orders/o2", "3")] {
                #expect(try client.request("PUT", "/\(path).json", body: value).status == 200)
            }
            try body(client)
        }
    }

    @Test func itIsNarrowedToTheBasePath() throws {
        try withFeeds { client in
            for target in ["/.log?offset=-1", "/.log?offset=-1&path=/orders"] {
                let answer = try client.request("GET", target, token("orders"))
                #expect(answer.status == 200)
                #expect(answer.text.contains("\"seq\":1") && answer.text.contains("\"seq\":3"))
                #expect(!answer.text.contains("ada") && !answer.text.contains("127.0.0.1"))
                #expect(answer.text.contains("\"origin\":null"))
                #expect(answer.headers["cache-control"]?.hasPrefix("private") == true)
            }
            let one = try client.request("GET", "/.log?offset=-1&path=/orders/o2", token("orders"))
            #expect(one.status == 200 && !one.text.contains("o1") && one.text.contains("o2"))
        }
    }

    @Test func anUnknownOutcomeIsNoRefusal() throws {
        try withFeeds { client in
            for method in ["GET", "HEAD"] {
                let answer = try client.request(method, "/.log?offset=-1", token("unclear"))
                #expect(answer.status == 503 && answer.headers["retry-after"] == "1")
            }
        }
    }

    @Test func whatIsElsewhereIsRefused() throws {
        try withFeeds { client in
            var asked = ["path=/", "path=/users", "path=/ordersX", "ns=elsewhere"].map {
                ("GET", "/.log?offset=-1&\($0)", token("orders"))
            }
            for headers in [token("other"), token("orders", ns: "elsewhere"), [:]] {
                asked.append(("GET", "/.log?offset=-1", headers))
                asked.append(("HEAD", "/.log", headers))
            }
            // The same token in other requests.
            asked.append(("GET", "/orders.json", token("orders")))
            for (method, target, headers) in asked {
                let status = try client.request(method, target, headers).status
                #expect(status == 401, "\(method) \(target)")
            }
        }
    }
}
