import HTTPClient
import HTTPServer
import Runtime
import TestSupport
import Testing

/// Checks that the requests of one group do not delay those of another.
@Suite struct SharingTests {
    private static func request(_ url: String, _ group: String, _ member: String = "") -> HTTPClientRequest {
        var request = HTTPClientRequest.plain(url)
        (request.group, request.member, request.connections) = (group, member, group)
        return request
    }

    /// Returns a server that answers only requests to `/answer`.
    private static func server(_ arrived: Condition<Int>) throws -> LocalServer {
        try LocalServer { request, exchange in
            if request.targetText == "/answer" {
                exchange.respond(status: 200)
                return
            }
            arrived.broadcast { $0 += 1 }
        }
    }

    @Test func aGroupWhoseServerIsSilentLeavesRoom() throws {
        let arrived = Condition(0)
        let server = try Self.server(arrived)
        var settings = HTTPClient.Settings()
        settings.maxConnections = 40
        let client = try HTTPClient(settings)
        defer { client.stop() }
        for number in 0..<400 {
            client.send(Self.request(server.url("/silent"), "a", "\(number % 10)")) { _ in }
        }
        // Exactly half of the slots.
        #expect(arrived.wait(milliseconds: 60_000) { $0 >= 18 ? true : nil } == true)
        for _ in 0..<20 {
            #expect(try client.result(Self.request(server.url("/answer"), "b"))?.get().status == 200)
        }
        #expect(arrived.withLock { $0 } <= 20)
    }

    @Test func aMemberWhoseServerIsSilentLeavesRoomForTheOthersOfItsGroup() throws {
        let arrived = Condition(0)
        let server = try Self.server(arrived)
        var settings = HTTPClient.Settings()
        settings.maxConnections = 40
        let client = try HTTPClient(settings)
        defer { client.stop() }
        for _ in 0..<400 { client.send(Self.request(server.url("/silent"), "a", "silent")) { _ in } }
        #expect(arrived.wait(milliseconds: 60_000) { $0 >= 10 ? true : nil } == true)
        for _ in 0..<20 {
            #expect(try client.result(Self.request(server.url("/answer"), "a", "other"))?.get().status == 200)
        }
    }

    /// Checks that a request that gets no slot in time is not sent, and fails with that reason.
    @Test(arguments: [0, 50] as [Milliseconds]) func waitingForASlotEnds(_ patience: Milliseconds) throws {
        let arrived = Condition(0)
        let server = try Self.server(arrived)
        var settings = HTTPClient.Settings()
        settings.maxConnections = 1
        let client = try HTTPClient(settings)
        defer { client.stop() }
        client.send(Self.request(server.url("/silent"), "a")) { _ in }
        #expect(arrived.wait(milliseconds: 30_000) { $0 == 1 ? true : nil } == true)
        var request = Self.request(server.url("/answer"), "b")
        request.queueMilliseconds = patience
        #expect(client.failure(request) == .notSent("no slot was free in time"))
        #expect(arrived.withLock { $0 } == 1)
    }

    /// Checks that the time limit for a slot is separate from that for the answer, and that a free slot is used even if
    /// the limit is zero.
    @Test func aFreeSlotIsTakenWithoutWaiting() throws {
        let server = try Self.server(Condition(0))
        let client = try HTTPClient()
        defer { client.stop() }
        var request = Self.request(server.url("/answer"), "a")
        request.queueMilliseconds = 0
        for _ in 0..<20 { #expect(try client.result(request)?.get().status == 200) }
    }

    @Test func urgentRequestsGoFirst() throws {
        let order = Condition<[String]>([])
        let held = Condition<[ExchangeReference]>([])
        let server = try LocalServer { request, exchange in
            if request.targetText == "/held" { return held.broadcast { $0.append(exchange.reference) } }
            order.broadcast { $0.append(request.targetText) }
            exchange.respond(status: 200)
        }
        var settings = HTTPClient.Settings()
        settings.maxConnections = 1
        let client = try HTTPClient(settings)
        defer { client.stop() }
        client.send(Self.request(server.url("/held"), "a")) { _ in }
        let reference = try #require(held.wait(milliseconds: 30_000) { $0.first })
        client.send(Self.request(server.url("/later"), "b")) { _ in }
        var urgent = Self.request(server.url("/urgent"), "b")
        urgent.isUrgent = true
        client.send(urgent) { _ in }
        reference.perform { $0.respond(status: 200) }
        #expect(order.wait(milliseconds: 30_000) { $0.count == 2 ? $0 : nil } == ["/urgent", "/later"])
    }

    /// Checks that the cost of canceling many waiting requests does not grow with the square of their number.
    @Test func thousandsAreCancelled() throws {
        let arrived = Condition(0)
        let server = try Self.server(arrived)
        var settings = HTTPClient.Settings()
        settings.maxConnections = 1
        settings.maxWaiting = 100_000
        let client = try HTTPClient(settings)
        defer { client.stop() }
        client.send(Self.request(server.url("/silent"), "a")) { _ in }
        #expect(arrived.wait(milliseconds: 30_000) { $0 == 1 ? true : nil } == true)
        let cancelled = Condition(0)
        let ids = (0..<20_000).map { _ in
            client.send(Self.request(server.url("/silent"), "b")) { result in
                if case .failure(.cancelled) = result { cancelled.broadcast { $0 += 1 } }
            }
        }
        for id in ids { client.cancel(id) }
        #expect(cancelled.wait(milliseconds: 60_000) { $0 == 20_000 ? true : nil } == true)
        #expect(arrived.withLock { $0 } == 1)
    }
}
