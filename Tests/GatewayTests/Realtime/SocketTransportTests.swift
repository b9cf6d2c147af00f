import Runtime
import TestSupport
import Testing

@testable import Gateway
@testable import HTTPServer

/// Tests of how messages to realtime clients on WebSockets are split and sent, on this loop and through another loop.
@Suite struct SocketTransportTests {
    /// A connection that was taken over, and its client.
    private final class Bench {
        let test: TestLoop
        let client: WebClient
        let exchange: LoopBound<HTTPExchange>

        init(_ test: TestLoop, buffer: Int32? = nil) throws {
            self.test = test
            client = try test.client(buffer: buffer)
            let (_, exchange) = try test.exchange(
                client, "GET", "/.ws", ["Connection": "Upgrade", "Upgrade": "websocket"])
            self.exchange = exchange
            try test.on { exchange.content.upgrade(headers: ["Upgrade": "websocket"]) { _ in } }
            #expect(try client.head().status == 101)
        }

        /// The texts of the next frames to the client. Nil stands for frames that are not text.
        func frames(_ count: Int) throws -> [String?] {
            try (0..<count).map { _ in
                let head = try client.read(bytes: 2)
                var length = Int(head[1] & 0x7F)
                if length == 126 { length = try client.read(bytes: 2).reduce(0) { $0 << 8 | Int($1) } }
                if length == 127 { length = try client.read(bytes: 8).reduce(0) { $0 << 8 | Int($1) } }
                let body = try client.read(bytes: length)
                return head[0] == 0x81 ? String(decoding: body, as: UTF8.self) : nil
            }
        }
    }

    private func withSocket(buffer: Int32? = nil, _ body: (Bench) throws -> Void) throws {
        try withLoop { test in try body(try Bench(test, buffer: buffer)) }
    }

    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    // MARK: A socket of this loop

    @Test func messagesAreFrames() throws {
        try withSocket { bench in
            try bench.test.on {
                let transport = WebSocketSessionTransport(bench.exchange.content)
                #expect(transport.send(bytes("one")))
                #expect(transport.send(bytes("")))
                #expect(transport.send(bytes("three")))
            }
            #expect(try bench.frames(3) == ["one", "", "three"])
        }
    }

    /// Checks that a long message is sent as a number of pieces followed by the pieces.
    @Test func longMessagesAreCut() throws {
        try withSocket { bench in
            let long = String(repeating: "x", count: 40_000)
            try bench.test.on { _ = WebSocketSessionTransport(bench.exchange.content).send(bytes(long)) }
            let frames = try bench.frames(4).compactMap { $0 }
            #expect(frames.first == "3")
            #expect(frames.dropFirst().joined() == long)
            #expect(frames.dropFirst().allSatisfy { $0.utf8.count <= 16_384 })
        }
    }

    /// Checks that buffered messages are sent in one piece, before all later messages.
    @Test func collectedMessagesKeepTheirOrder() throws {
        try withSocket { bench in
            try bench.test.on {
                let transport = WebSocketSessionTransport(bench.exchange.content)
                #expect(transport.beginCollecting())
                #expect(!transport.beginCollecting(), "it is gathered already")
                _ = transport.send(bytes("1"))
                _ = transport.send(bytes("2"))
                #expect(transport.queuedBytes == 6)
                transport.send(frames: SharedBytes(WebSocketFrame.text(bytes("3"))))
                _ = transport.send(bytes("4"))
                _ = transport.send(bytes(String(repeating: "x", count: 16_385)))
                _ = transport.send(bytes("6"))
                transport.sendCollected()
                #expect(transport.queuedBytes == bench.exchange.content.queuedOutputBytes)
                _ = transport.send(bytes("7"))
                #expect(transport.beginCollecting())
                transport.sendCollected()
            }
            let frames = try bench.frames(9).compactMap { $0 }
            #expect(frames.prefix(5) == ["1", "2", "3", "4", "2"], "the last is the count of a long one's pieces")
            #expect(frames.suffix(2) == ["6", "7"])
        }
    }

    @Test func muchDoesNotWait() throws {
        try withSocket { bench in
            let transport = try bench.test.on {
                let transport = WebSocketSessionTransport(bench.exchange.content)
                #expect(transport.beginCollecting())
                for _ in 0..<10 { _ = transport.send(bytes(String(repeating: "x", count: 10_000))) }
                return LoopBound(transport)
            }
            // Messages beyond 64 KiB have already been sent.
            #expect(try bench.frames(6).count == 6)
            try bench.test.on { transport.content.sendCollected() }
            #expect(try bench.frames(4).count == 4)
        }
    }

    @Test func closingSaysSo() throws {
        try withSocket { bench in
            try bench.test.on {
                let transport = WebSocketSessionTransport(bench.exchange.content)
                #expect(transport.beginCollecting())
                _ = transport.send(bytes("last"))
                transport.close()
                transport.close()
                #expect(!transport.beginCollecting())
                _ = transport.send(bytes("never"))
                transport.ping()
            }
            #expect(try bench.frames(1) == ["last"])
            #expect(try bench.client.read(bytes: 4) == [0x88, 2, 0x03, 0xE9])
            #expect(bench.client.isAtEnd())
        }
    }

    /// Checks that a client that has stopped reading is disconnected without waiting.
    @Test func abandonedClientsAreCutOff() throws {
        try withSocket(buffer: 4_096) { bench in
            try bench.test.on {
                let transport = WebSocketSessionTransport(bench.exchange.content)
                for _ in 0..<200 { _ = transport.send(bytes(String(repeating: "x", count: 10_000))) }
                #expect(transport.queuedBytes > 1_000_000)
                transport.ping()
                transport.abandon()
                #expect(transport.queuedBytes < 100_000)
            }
            #expect(bench.client.isAtEnd())
        }
    }

    @Test func pingsAreForQuietClients() throws {
        try withSocket { bench in
            try bench.test.on { WebSocketSessionTransport(bench.exchange.content).ping() }
            #expect(try bench.client.read(bytes: 1) == [0x89])
        }
    }

    // MARK: A socket of another loop

    @Test func relayedMessagesArrive() throws {
        try withSocket { bench in
            let backlog = SocketBacklog()
            let transport = RelayedWebSocketTransport(bench.exchange.content.reference, backlog)
            #expect(transport.send(bytes("1")))
            transport.send(frames: SharedBytes(WebSocketFrame.text(bytes("2"))))
            #expect(try bench.frames(2) == ["1", "2"])
            try bench.test.settle()
            #expect(transport.queuedBytes == 0)
        }
    }

    @Test func heldMessagesWaitForTheRelease() throws {
        try withSocket { bench in
            let transport = RelayedWebSocketTransport(bench.exchange.content.reference, SocketBacklog())
            transport.hold()
            #expect(transport.send(bytes("1")))
            #expect(transport.send(bytes("2")))
            #expect(transport.queuedBytes == 6)
            transport.ping()
            transport.release()
            transport.release()
            #expect(transport.send(bytes("3")))
            let frames = try bench.frames(3)
            #expect(frames == ["1", "2", "3"])
        }
    }

    /// Checks that held messages are sent after some time: a client that has not become ready by then will not report
    /// it any more.
    @Test func heldMessagesGoOutInTime() throws {
        try withSocket { bench in
            let transport = RelayedWebSocketTransport(bench.exchange.content.reference, SocketBacklog())
            var idle = 0
            transport.onIdle = { idle += 1 }
            transport.hold()
            _ = transport.send(bytes("1"))
            for _ in 0..<3 { transport.tick() }
            #expect(idle == 0)
            #expect(try bench.frames(1) == ["1"])
            try bench.test.settle()
            transport.tick()
            #expect(idle == 1, "nothing waits: a client that was taken for slow is looked at again")
        }
    }

    @Test func relayedClosesSendWhatIsHeld() throws {
        try withSocket { bench in
            let transport = RelayedWebSocketTransport(bench.exchange.content.reference, SocketBacklog())
            transport.hold()
            _ = transport.send(bytes("last"))
            transport.close()
            _ = transport.send(bytes("never"))
            let frames = try bench.frames(1)
            #expect(frames == ["last"])
            #expect(try bench.client.read(bytes: 4) == [0x88, 2, 0x03, 0xE9])
            #expect(bench.client.isAtEnd())
        }
    }

    @Test func relayedAbandonsSendNothing() throws {
        try withSocket { bench in
            let transport = RelayedWebSocketTransport(bench.exchange.content.reference, SocketBacklog())
            transport.hold()
            _ = transport.send(bytes("never"))
            transport.abandon()
            #expect(bench.client.isAtEnd())
        }
    }

    // MARK: Backlog between two loops

    @Test func backlogsCountBothWays() {
        let backlog = SocketBacklog()
        backlog.willSend(100)
        backlog.willSend(50)
        #expect(backlog.outgoing == 150)
        backlog.sent(100, queued: 70)
        #expect(backlog.outgoing == 120)
        backlog.sent(50, queued: 90)
        #expect(backlog.outgoing == 90)
        backlog.drained()
        #expect(backlog.outgoing == 0)
        #expect(backlog.receives(60, limit: 100))
        #expect(!backlog.receives(60, limit: 100))
        backlog.taken(60)
        backlog.taken(60)
        #expect(backlog.receives(100, limit: 100))
    }
}
