import Engine
import Feeds
import HTTPServer
import Rules
import Runtime
import TestSupport
import Testing
import Tokens
import Tree

@testable import Gateway

/// Tests of the limit on concurrent readers of the log, and of its shares.
@Suite struct LogSeatsTests {
    private static let secret = "an administrator's secret 0123456789 abc"

    private func identity(_ power: Identity.Power, feed: String? = nil) -> Identity {
        Identity(
            .unauthenticated, power: power,
            feed: feed.flatMap { FeedBinding(feed: $0, namespace: "n") }.map { FeedGrant(feed: $0, access: .any) })
    }

    /// Calls and releases the completions, which hold seats.
    private static func complete(_ waiting: Condition<[@Sendable (Result<Path?, any Error>) -> Void]>, _ path: Path?) {
        let completions = waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
        for completion in completions { completion(.success(path)) }
    }

    private func fill(_ seats: LogSeats, _ identity: Identity, _ namespace: String) -> [LogSeats.Seat] {
        var taken: [LogSeats.Seat] = []
        while let seat = seats.take(for: identity, in: namespace), taken.count < 1_000 { taken.append(seat) }
        return taken
    }

    @Test func namespacesAndReadersShare() {
        let seats = LogSeats(128)
        let feed = fill(seats, identity(.none, feed: "f"), "a")
        #expect(feed.count == 28)
        let administrators = fill(seats, identity(.namespace), "a")
        #expect(administrators.count > 10)
        let other = fill(seats, identity(.none, feed: "f"), "b")
        #expect(other.count > 10)
        // An eighth of the seats is reserved for the gateway's administrators, who may use all remaining seats.
        let operators = fill(seats, identity(.everything), "c")
        #expect(operators.count == 128 - feed.count - administrators.count - other.count && operators.count > 16)
        #expect(seats.used == 128)
    }

    @Test func aReleasedSeatIsFree() {
        let seats = LogSeats(8)
        for _ in 0..<100 {
            let taken = fill(seats, identity(.none, feed: "f"), "a")
            #expect(taken.count == 2 && seats.used == 2)
        }
        #expect(seats.used == 0)
        #expect(LogSeats(0).take(for: identity(.everything), in: "a") == nil)
    }

    /// The header with a token of the feed `orders` of a namespace.
    private static func feedToken(in namespace: String) -> [String: String] {
        let now = Clock.unixMilliseconds / 1_000
        let claims: Claims = [
            "v": 0, "iat": .integer(now), "exp": .integer(now + 100), "feed": "orders", "ns": .string(namespace),
        ]
        return ["Authorization": "Bearer " + JWT.mint(claims, secret: Array(secret.utf8))]
    }

    /// Checks that a burst takes no more seats than the limit: the gateway counts readers before it queries the
    /// database.
    @Test func aBurstIsCountedAtOnce() throws {
        let headers = Self.feedToken(in: "default")
        let waiting = Condition<[@Sendable (Result<Path?, any Error>) -> Void]>([])
        try withDatabase { url in
            let gateway = try TestGateway(url, { $0.maxLogReadings = 8 }, secret: Self.secret) { _, _, completion in
                waiting.broadcast { $0.append(completion) }
            }
            defer { gateway.stop() }
            #expect(try WebClient(gateway.port).request("PUT", "/orders/o1.json", body: "1").status == 200)
            let clients = try (0..<2).map { _ in try WebClient(gateway.port) }
            for client in clients { try client.send("GET", "/.log?offset=-1", headers) }
            _ = waiting.wait(milliseconds: 30_000) { $0.count == 2 ? true : nil }
            let refused = try WebClient(gateway.port).request("GET", "/.log?offset=-1", headers)
            #expect(refused.status == 503 && refused.headers["retry-after"] == "5")
            let administrator = ["Authorization": "Bearer " + Self.secret]
            #expect(try WebClient(gateway.port).request("GET", "/.log?offset=-1", administrator).status == 200)
            Self.complete(waiting, Path(splitting: "orders"))
            for client in clients { #expect(try client.answer().status == 200) }
            #expect(eventually { gateway.gateway.logSeats.used == 0 })
        }
    }

    /// Checks that a caller whose credential is insufficient is refused for that reason regardless of free seats, and
    /// takes no seat.
    @Test func aCallerWithoutARightTakesNoSeat() throws {
        let token = Self.feedToken(in: "elsewhere")
        try withDatabase { url in
            let gateway = try TestGateway(url, { $0.maxLogReadings = 0 }, secret: Self.secret)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            for method in ["GET", "HEAD"] {
                for headers in [[:], token] {
                    #expect(try client.request(method, "/.log?offset=-1", headers).status == 401)
                    // The gateway parses the parameters after it has checked the credential.
                    #expect(try client.request(method, "/.log?offset=x", headers).status == 401)
                }
                let administrator = ["Authorization": "Bearer " + Self.secret]
                #expect(try client.request(method, "/.log?offset=-1", administrator).status == 503)
                #expect(try client.request(method, "/.log?offset=x", administrator).status == 400)
            }
        }
    }

    /// Checks that a client that disconnects during the lookup of its feed keeps its seat until the lookup ends.
    @Test func aLookUpKeepsItsSeat() throws {
        let headers = Self.feedToken(in: "default")
        let waiting = Condition<[@Sendable (Result<Path?, any Error>) -> Void]>([])
        try withDatabase { url in
            let gateway = try TestGateway(url, { $0.maxLogReadings = 8 }, secret: Self.secret) { _, _, completion in
                waiting.broadcast { $0.append(completion) }
            }
            defer { gateway.stop() }
            do {
                let client = try WebClient(gateway.port)
                client.resetsWhenClosed()
                try client.send("GET", "/.log?offset=-1", headers)
                withExtendedLifetime(client) {
                    _ = waiting.wait(milliseconds: 30_000) { $0.count == 1 ? true : nil }
                }
            }
            #expect(eventually { gateway.server.statistics.activeConnections == 0 })
            #expect(gateway.gateway.logSeats.used == 1)
            Self.complete(waiting, nil)
            #expect(eventually { gateway.gateway.logSeats.used == 0 })
        }
    }

    /// Checks that a client that disconnects frees its seat.
    @Test func aClientThatLeavesGivesItsSeatBack() throws {
        try withDatabase { url in
            let gateway = try TestGateway(url, { $0.maxLogReadings = 8 }, secret: Self.secret)
            defer { gateway.stop() }
            #expect(try WebClient(gateway.port).request("PUT", "/orders/o1.json", body: "1").status == 200)
            let headers = ["Authorization": "Bearer " + Self.secret]
            for _ in 0..<20 {
                let client = try WebClient(gateway.port)
                try client.send("GET", "/.log?offset=now&live=sse", headers)
                #expect(try client.head().status == 200)
                client.shutDown()
            }
            #expect(eventually { gateway.gateway.logSeats.used == 0 })
        }
    }
}
