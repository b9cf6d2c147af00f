import Runtime
import Testing

@testable import HTTPServer

/// Checks that output for peers that read nothing is bounded, for all connections together.
@Suite struct OutputBudgetTests {
    private static let mebibyte = 1 << 20
    /// A body larger than the buffers of two sockets.
    private static let body = [UInt8](repeating: 0x78, count: 12 * mebibyte)

    private static func account(_ namespace: String, _ address: String = "192.0.2.1") throws -> OutputBudget.Account {
        OutputBudget.Account(namespace: namespace, address: try #require(IPAddress(address)))
    }

    /// Starts a server that answers with a large body; the target is the namespace.
    private static func server(_ mebibytes: Int) throws -> (TestServer, OutputBudget) {
        let budget = OutputBudget(bytes: mebibytes * mebibyte)
        let answer: TestServer.Handle = { request, exchange in
            exchange.namespace = String(decoding: request.target, as: UTF8.self)
            exchange.respond(status: 200, body: body)
        }
        let server = try TestServer({ $0.output = budget }, answer)
        return (server, budget)
    }

    private static func ask(_ server: TestServer, _ namespace: String) throws -> TestClient {
        let client = try TestClient(port: server.port, receiveBuffer: 4_096)
        try client.send("GET \(namespace) HTTP/1.1\r\nHost: x\r\n\r\n")
        return client
    }

    @Test func unreadResponses() throws {
        let (server, budget) = try Self.server(128)
        // By the rule of the ledger an address has a quarter: two of these bodies.
        let first = try (0..<2).map { _ in try Self.ask(server, "/a") }
        eventually { budget.taken == 24 * Self.mebibyte }
        let refused = try (0..<20).map { _ in try Self.ask(server, "/a") }
        for client in refused {
            let response = try client.receiveResponse()
            #expect(response.status == 503)
            #expect(response.headers["retry-after"] == "1")
        }
        #expect(budget.taken == 24 * Self.mebibyte)
        #expect(budget.refused == 20)
        // The budget has space for another namespace.
        let other = try Self.ask(server, "/b")
        #expect(try other.receiveResponse().body.count == Self.body.count)
        // A refused connection stays open, and its next request is accepted when another client has read.
        #expect(try first[0].receiveResponse().body.count == Self.body.count)
        eventually { budget.taken == 12 * Self.mebibyte }
        try refused[0].send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(try refused[0].receiveResponse().status == 200)
        // A connection that is reset releases its share.
        first[1].reset()
        eventually { budget.taken == 0 }
    }

    /// A response that is larger than any share is served all the same, unless many others wait.
    @Test func oneResponseMayBeLargerThanItsShare() throws {
        let budget = OutputBudget(bytes: 1_000)
        #expect(budget.take(5_000, for: try Self.account("a")))
        #expect(!budget.take(5_000, for: try Self.account("b")))
        budget.giveBack(5_000, for: try Self.account("a"))
        #expect(budget.take(200, for: try Self.account("b")))
        #expect(budget.take(600, for: try Self.account("a")))
        #expect(!budget.take(600, for: try Self.account("a")))
        #expect(budget.taken == 800)
    }

    /// An event for many listeners is in memory once.
    @Test func sharedBytesCountOnce() throws {
        let budget = OutputBudget(bytes: 1_000)
        let bytes = SharedBytes([UInt8](repeating: 0, count: 200))
        for _ in 0..<100 { #expect(bytes.enter(budget, try Self.account("a"))) }
        #expect(budget.taken == 200)
        for _ in 0..<99 { bytes.leave() }
        #expect(budget.taken == 200)
        bytes.leave()
        bytes.leave()
        #expect(budget.taken == 0)
    }

    /// A queue releases the budget of sent and dropped output.
    @Test func queuesGiveBack() throws {
        let budget = OutputBudget(bytes: 100_000)
        var queue = OutputQueue()
        func append(_ count: Int) throws {
            let bytes = SharedBytes([UInt8](repeating: 0, count: count))
            #expect(bytes.enter(budget, try Self.account("a")))
            queue.append(bytes, isDroppable: true)
        }
        for _ in 0..<100 { try append(10) }
        queue.removeSent(505)
        #expect(budget.taken == 500)
        #expect(queue.dropUnsent(committedBytes: 0).count == 49)
        #expect(budget.taken == 10)
        queue.removeSent(5)
        #expect(budget.taken == 0)
        try append(10)
        queue.removeAll()
        #expect(budget.taken == 0 && queue.isEmpty)
    }

    @Test func aStreamForWhichThereIsNoRoomEnds() throws {
        let budget = OutputBudget(bytes: 32 * Self.mebibyte)
        let ended = Notes<Int>()
        let stream: TestServer.Handle = { _, exchange in
            exchange.startStream()
            exchange.onClose = { ended.add(1) }
            for _ in 0..<100 { exchange.send(SharedBytes([UInt8](repeating: 0x78, count: 1 << 20))) }
        }
        let server = try TestServer({ $0.output = budget }, stream)
        let client = try Self.ask(server, "/")
        eventually { ended.count == 1 }
        #expect(budget.taken == 0)
        #expect(budget.refused == 1)
        client.close()
    }
}
