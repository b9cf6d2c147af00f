import Runtime
import TestSupport
import Testing

@testable import HTTPClient

/// Checks that the effort that a server can cause on the client's thread, and on the system's resolver, is bounded.
@Suite struct EffortTests {
    private static func result(_ answer: String, truncates: Bool = false) throws -> Result<
        ClientResponse, HTTPClientError
    > {
        let server = try ScriptedServer { connection in
            guard connection.request() != nil else { return }
            connection.send(answer)
            // The client ends the connection.
            while connection.request() != nil {}
        }
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url())
        request.truncatesResponse = truncates
        return try withExtendedLifetime(server) { try #require(client.result(request)) }
    }

    private static func interim(_ count: Int) -> String {
        (0..<count).map { "HTTP/1.1 10\($0 % 2 == 0 ? 0 : 3) Wait\r\nX: \($0)\r\n\r\n" }.joined()
    }

    @Test func interimResponsesAreBounded() throws {
        let final = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        let response = try Self.result(Self.interim(8) + final).get()
        #expect(response.status == 200 && response.body == Array("ok".utf8) && response.header("x") == nil)
        // The ninth interim response ends the request, whatever follows.
        for rest in [final, "", Self.interim(20_000)] {
            #expect(throws: HTTPClientError.responseTooLarge) { try Self.result(Self.interim(9) + rest).get() }
        }
        // Part of an unwanted body may be omitted, but not a header.
        #expect(throws: HTTPClientError.responseTooLarge) { try Self.result(Self.interim(9), truncates: true).get() }
    }

    @Test func headerBytesAreBounded() throws {
        let header = "X: " + String(repeating: "x", count: 5_995) + "\r\n"
        let final = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        let interim = "HTTP/1.1 103 Early Hints\r\n" + header + header + "\r\n"
        #expect(try Self.result(String(repeating: interim, count: 5) + final).get().status == 200)
        #expect(throws: HTTPClientError.responseTooLarge) {
            try Self.result(String(repeating: interim, count: 6) + final).get()
        }
        // Trailers count as well.
        let trailer = "X: " + String(repeating: "x", count: 995) + "\r\n"
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        #expect(throws: HTTPClientError.responseTooLarge) {
            try Self.result(chunked + String(repeating: trailer, count: 70) + "\r\n").get()
        }
    }

    @Test func smallPiecesAreBounded() throws {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        let pieces = { (count: Int) in head + String(repeating: "1\r\nx\r\n", count: count) }
        #expect(try Self.result(pieces(1_000) + "0\r\n\r\n").get().body.count == 1_000)
        // The end never arrives.
        #expect(throws: HTTPClientError.responseTooLarge) { try Self.result(pieces(5_000)).get() }
        let cut = try Self.result(pieces(5_000), truncates: true).get()
        #expect(cut.isTruncated && (1_000..<1_100).contains(cut.body.count))
        // A body in larger pieces may have any number of them.
        let piece = "40\r\n" + String(repeating: "x", count: 64) + "\r\n"
        let whole = try Self.result(head + String(repeating: piece, count: 5_000) + "0\r\n\r\n").get()
        #expect(whole.body.count == 320_000)
    }

    @Test func eachAttemptIsCountedByItself() throws {
        let server = try ScriptedServer { connection in
            while let request = connection.request() {
                let isLast = request.hasPrefix("GET /last")
                connection.send(
                    Self.interim(8) + "HTTP/1.1 \(isLast ? 200 : 307) X\r\nLocation: /last\r\nContent-Length: 0\r\n\r\n"
                )
            }
        }
        let client = try HTTPClient()
        defer { client.stop() }
        #expect(try client.result(.plain(server.url()))?.get().status == 200)
    }

    // MARK: Resolvers

    @Test func slotsAreHeldInOrder() {
        let slots = (0..<5).map { Inbox.Slot(group: "g", member: "\($0)") }
        var held = HeldSlots()
        #expect(held.nextDue == nil && held.release(at: 1_000_000) == [])
        held.hold(slots[0], at: 100)
        held.hold(slots[1], at: 100)
        held.hold(slots[2], at: 2_000)
        #expect(held.nextDue == 10_100)
        #expect(held.release(at: 10_099) == [])
        #expect(held.release(at: 10_100) == [slots[0], slots[1]])
        #expect(held.nextDue == 12_000)
        held.hold(slots[3], at: 10_200)
        #expect(held.release(at: 11_999) == [])
        #expect(held.release(at: 30_000) == [slots[2], slots[3]])
        #expect(held.nextDue == nil && held.release(at: 40_000) == [])
        held.hold(slots[4], at: 40_000)
        #expect(held.nextDue == 50_000 && held.release(at: 50_000) == [slots[4]])
    }

    @Test func heldSlotsAreReleasedOnceEach() {
        var held = HeldSlots()
        var released: [String] = []
        for number in 0..<1_000 {
            held.hold(Inbox.Slot(group: "", member: "\(number)"), at: Milliseconds(number * 100))
            released += held.release(at: Milliseconds(number * 100)).map(\.member)
            #expect(released.count == max(0, number - 99))
        }
        released += held.release(at: 1_000_000).map(\.member)
        #expect(released == (0..<1_000).map { "\($0)" })
    }

    /// Checks that a request to an IP address, which needs no resolver, frees its slot as soon as it ends.
    @Test func addressesHoldNoSlot() throws {
        let server = try ScriptedServer { connection in
            while let request = connection.request() {
                if request.hasPrefix("GET /answered") {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                }
            }
        }
        var settings = HTTPClient.Settings()
        settings.maxConnections = 1
        let client = try HTTPClient(settings)
        defer { client.stop() }
        var silent = HTTPClientRequest.plain(server.url("/silent"))
        silent.timeoutMilliseconds = 50
        #expect(client.failure(silent) == .timedOut)
        var answered = HTTPClientRequest.plain(server.url("/answered"))
        answered.queueMilliseconds = 5_000
        #expect(try client.result(answered)?.get().status == 200)
    }
}
