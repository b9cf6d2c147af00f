import Glibc
import Testing

@testable import HTTPServer

/// Checks responses without an end, and peers that disconnect.
@Suite struct StreamingTests {
    private static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    /// Streams of one loop, accessed by their references.
    private final class Audience: Sendable {
        let references = Notes<ExchangeReference>()
        let closed = Notes<UInt64>()
        let drained = Notes<UInt64>()

        func join(_ exchange: HTTPExchange) {
            let id = exchange.id
            exchange.onClose = { [closed] in closed.add(id) }
            exchange.onDrain = { [drained] in drained.add(id) }
            exchange.startStream(headers: ["Content-Type": "text/event-stream"])
            references.add(exchange.reference)
        }

        func eachStream(_ work: @escaping @Sendable (HTTPExchange) -> Void) {
            for reference in references.all { reference.perform(work) }
        }
    }

    private func line(_ number: Int, _ size: Int) -> SharedBytes {
        SharedBytes(utf8: "\(number):" + String(repeating: "x", count: size) + "\n")
    }

    @Test func oneEventForMany() throws {
        let audience = Audience()
        let handle: TestServer.Handle = { _, exchange in audience.join(exchange) }
        let server = try TestServer({ $0.loops = 2 }, handle)
        let clients = try (0..<50).map { _ in try TestClient(port: server.port) }
        for client in clients {
            try client.send(Self.get)
            let head = try client.receiveHead()
            #expect(head.headers["connection"] == "close")
            #expect(head.headers["content-length"] == nil)
        }
        eventually { audience.references.count == 50 }
        for number in 0..<100 {
            let bytes = line(number, 10)
            audience.eachStream { $0.send(bytes) }
        }
        audience.eachStream { $0.close() }
        let expected = (0..<100).flatMap { line($0, 10).bytes }
        for client in clients { #expect(try client.receiveAll() == expected) }
        for client in clients { client.close() }
        eventually { audience.closed.count == 50 }
        #expect(Set(audience.closed.all).count == 50)
    }

    @Test func headOfAStreamIsAllThereIs() throws {
        let server = try TestServer { _, exchange in
            exchange.startStream(headers: ["Content-Type": "text/event-stream"])
            exchange.send(SharedBytes(utf8: "event"))
        }
        let client = try TestClient(port: server.port)
        try client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try client.receiveHead().status == 200)
        #expect(try client.receiveAll().isEmpty)
    }

    @Test func aSlowReaderDelaysNoOtherAndLosesNothing() throws {
        let audience = Audience()
        let server = try TestServer { _, exchange in audience.join(exchange) }
        let slow = try TestClient(port: server.port, receiveBuffer: 4096)
        let fast = try TestClient(port: server.port)
        for client in [slow, fast] {
            try client.send(Self.get)
            _ = try client.receiveHead()
        }
        eventually { audience.references.count == 2 }
        let expected = (0..<200).flatMap { line($0, 50_000).bytes }
        for number in 0..<200 {
            let bytes = line(number, 50_000)
            audience.eachStream { $0.send(bytes) }
        }
        #expect(try fast.receive(expected.count) == expected)
        #expect(try slow.receive(expected.count) == expected)
        eventually { audience.drained.count >= 1 }
    }

    @Test func droppedOutputLeavesWholeChunks() throws {
        let audience = Audience()
        let dropped = Notes<Int>()
        let queued = Notes<Int>()
        let server = try TestServer { _, exchange in audience.join(exchange) }
        let client = try TestClient(port: server.port, receiveBuffer: 4096)
        try client.send(Self.get)
        _ = try client.receiveHead()
        eventually { audience.references.count == 1 }
        audience.eachStream { exchange in
            for number in 0..<1000 {
                exchange.send(SharedBytes(utf8: "\(number):" + String(repeating: "x", count: 20_000) + "\n"))
            }
            let before = exchange.queuedOutputBytes
            let gone = exchange.dropQueuedOutput()
            dropped.add(gone.count)
            queued.add(before - exchange.queuedOutputBytes - gone.reduce(0) { $0 + $1.count })
            #expect(exchange.queuedOutputBytes <= 20_010)
            exchange.send(SharedBytes(utf8: "fresh\n"))
            exchange.close()
        }
        // The client reads nothing before everything is queued.
        eventually { dropped.count == 1 }
        let lines = String(decoding: try client.receiveAll(), as: UTF8.self).split(separator: "\n")
        #expect(lines.last == "fresh")
        #expect(dropped.all[0] > 100)
        #expect(queued.all == [0])
        #expect(lines.count == 1001 - dropped.all[0])
        for (number, line) in lines.dropLast().enumerated() {
            #expect(line.hasPrefix("\(number):"))
            #expect(line.utf8.count == "\(number):".utf8.count + 20_000)
        }
    }

    /// Dropping the whole queue leaves a usable stream, and a loop that does not spin on it.
    @Test func aQueueDroppedToNothing() throws {
        let audience = Audience()
        let left = Notes<Int>()
        let server = try TestServer { _, exchange in audience.join(exchange) }
        let client = try TestClient(port: server.port, receiveBuffer: 4096)
        try client.send(Self.get)
        _ = try client.receiveHead()
        eventually { audience.references.count == 1 }
        audience.eachStream { exchange in
            // Fills the socket until one chunk is sent completely and the next not at all, or gives up.
            for _ in 0..<100_000 where exchange.queuedOutputBytes == 0 { exchange.send(SharedBytes(utf8: "abcd")) }
            exchange.dropQueuedOutput()
            left.add(exchange.queuedOutputBytes)
            exchange.send(SharedBytes(utf8: "end!"))
            exchange.close()
        }
        eventually { left.count == 1 }
        let all = try client.receiveAll()
        #expect(all.suffix(4) == Array("end!".utf8))
        #expect(all.count % 4 == 0)
    }

    @Test(arguments: [false, true]) func aListenerThatLeavesIsNoticed(_ byReset: Bool) throws {
        let audience = Audience()
        let server = try TestServer { _, exchange in audience.join(exchange) }
        let client = try TestClient(port: server.port)
        try client.send(Self.get)
        _ = try client.receiveHead()
        if byReset { client.reset() } else { client.close() }
        eventually { audience.closed.count == 1 }
        eventually { server.server.statistics.activeConnections == 0 }
        let found = Notes<Bool>()
        let reference = audience.references.all[0]
        reference.loop.post { found.add(reference.loop.exchange(for: reference) != nil) }
        eventually { found.all == [false] }
        #expect(audience.closed.count == 1)
    }

    /// Sending to a disconnected peer must not call back into the middle of the sender.
    @Test func aFailedSendIsReportedLater() throws {
        let audience = Audience()
        let order = Notes<String>()
        let server = try TestServer { _, exchange in
            audience.join(exchange)
            exchange.onClose = { order.add("closed") }
        }
        let client = try TestClient(port: server.port)
        try client.send(Self.get)
        _ = try client.receiveHead()
        eventually { audience.references.count == 1 }
        let held = Notes<Bool>()
        let broken = Notes<Bool>()
        let reference = audience.references.all[0]
        reference.loop.post {
            guard let exchange = reference.loop.exchange(for: reference) else { return }
            // The loop is blocked here until the client has disconnected.
            held.add(true)
            while broken.count == 0 { usleep(100) }
            for _ in 0..<10 { exchange.send(SharedBytes(utf8: "x")) }
            order.add("sent")
        }
        eventually { held.count == 1 }
        client.reset()
        broken.add(true)
        eventually { order.count == 2 }
        #expect(order.all == ["sent", "closed"])
    }

    @Test func aHalfClosedClientGetsItsAnswer() throws {
        let references = Notes<ExchangeReference>()
        let server = try TestServer { _, exchange in references.add(exchange.reference) }
        let client = try TestClient(port: server.port)
        try client.send(Self.get)
        client.finishSending()
        eventually { references.count == 1 }
        // The end of input reaches the server before the answer is given: the answer is queued after this request.
        let again = try TestClient(port: server.port)
        try again.send(Self.get)
        eventually { references.count == 2 }
        references.all[0].perform { $0.respond(status: 200, body: [UInt8](repeating: 0x61, count: 5_000_000)) }
        #expect(try client.receiveResponse().body.count == 5_000_000)
        #expect(client.isClosedByServer())
    }

    /// The end of input alone does not end an exchange, but a later reset does.
    @Test func aHalfClosedClientThatBreaksIsNoticed() throws {
        let closed = Notes<Int>()
        let references = Notes<ExchangeReference>()
        let server = try TestServer { _, exchange in
            exchange.onClose = { closed.add(1) }
            references.add(exchange.reference)
        }
        let client = try TestClient(port: server.port)
        try client.send(Self.get)
        eventually { references.count == 1 }
        client.finishSending()
        let again = try TestClient(port: server.port)
        try again.send(Self.get)
        eventually { references.count == 2 }
        #expect(closed.count == 0)
        client.reset()
        eventually { closed.count == 1 }
    }

    @Test func aClientThatBreaksWhileItIsAnsweredIsNoticed() throws {
        let closed = Notes<Int>()
        let received = Notes<Int>()
        let server = try TestServer { _, exchange in
            exchange.onClose = { closed.add(1) }
            received.add(1)
        }
        let client = try TestClient(port: server.port)
        try client.send(Self.get)
        eventually { received.count == 1 }
        client.reset()
        eventually { closed.count == 1 }
        eventually { server.server.statistics.activeConnections == 0 }
    }

    @Test func anUnansweredExchangeCanBeCutOff() throws {
        let closed = Notes<Int>()
        let server = try TestServer { _, exchange in
            exchange.onClose = { closed.add(1) }
            exchange.close()
            exchange.respond(status: 200)
        }
        let client = try TestClient(port: server.port)
        try client.send(Self.get)
        #expect(client.isClosedByServer())
        eventually { closed.count == 1 }
    }

    @Test func upgradedConnectionsBelongToTheirHandler() throws {
        let closed = Notes<Int>()
        let server = try TestServer { request, exchange in
            guard request.isUpgrade else {
                exchange.respond(status: 200)
                return
            }
            exchange.onClose = { closed.add(1) }
            let reference = exchange.reference
            exchange.upgrade(headers: ["Upgrade": "echo"]) { bytes in
                let copy = SharedBytes(Array(bytes))
                reference.loop.exchange(for: reference)?.send(copy)
            }
        }
        let client = try TestClient(port: server.port)
        try client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly")
        let head = try client.receiveHead()
        #expect(head.status == 101)
        #expect(head.headers["connection"] == "Upgrade")
        #expect(try client.receive(5) == Array("early".utf8))
        try client.send("late")
        #expect(try client.receive(4) == Array("late".utf8))
        client.close()
        eventually { closed.count == 1 }
    }

    @Test func anUpgradeThatIsNotTakenStaysHTTP() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        try client.send("GET /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        #expect(try client.receiveResponse().text == "GET /1|")
        #expect(try client.exchange("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n").text == "GET /2|")
    }
}
