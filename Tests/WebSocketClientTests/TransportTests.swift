import ClientCore
import ClientSupport
import Glibc
import Runtime
import TestSupport
import Testing
import WebSocketClient

/// Tests of connections to a server whose bytes the test determines.
@Suite(.timeLimit(.minutes(3))) struct TransportTests {
    static func address(_ port: UInt16, host: String = "127.0.0.1") -> RealtimeAddress {
        RealtimeAddress(host: host, port: port, isSecure: false, target: "/.ws?v=5&ns=demo")
    }

    @Test func textsGoBothWaysInOrder() throws {
        let server = try SocketServer { peer in
            while let text = peer.receiveText() { peer.sendFrame(text) }
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        let texts = (0..<2_000).map { "\($0) " + String(repeating: "ä", count: $0 % 300) }
        for text in texts { channel.send(Array(text.utf8)) }
        #expect(recorder.waitForTexts(texts.count) == texts)
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
        channel.send([1])
        channel.close()
        #expect(recorder.now.late == 0)
    }

    @Test(arguments: [1 << 20, 20 << 20]) func longTextsGoBothWays(length: Int) throws {
        let server = try SocketServer { peer in
            while let text = peer.receiveText() { peer.sendFrame(text) }
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        let text = [UInt8](repeating: 65, count: length)
        channel.send(text)
        #expect(recorder.wait { !$0.texts.isEmpty })
        #expect(recorder.now.texts == [text])
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
    }

    @Test func theRequestSaysWhereItGoes() throws {
        let server = try SocketServer { peer in
            peer.sendFrame(Array(peer.head.utf8))
            peer.waitForEnd()
        }
        var settings = TransportSettings()
        settings.headers = [("User-Agent", "tests/1"), ("X-Bad", "a\r\nHost: evil")]
        let transport = try WebSocketTransport(settings)
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        let head = recorder.waitForTexts(1).first ?? ""
        #expect(head.hasPrefix("GET /.ws?v=5&ns=demo HTTP/1.1\r\nHost: 127.0.0.1:\(server.port)\r\n"))
        #expect(head.contains("User-Agent: tests/1\r\n"))
        #expect(!head.contains("evil"))
        channel.close()
    }

    @Test func pingsAreAnsweredAndFragmentsJoined() throws {
        let pongs = Condition<[[UInt8]]>([])
        let server = try SocketServer { peer in
            peer.sendFrame(opcode: 1, isLast: false, Array("one ".utf8))
            peer.sendFrame(opcode: 9, [1, 2, 3])
            peer.sendFrame(opcode: 0, Array("text".utf8))
            while let frame = peer.receive() {
                if frame.opcode == 10 { pongs.broadcast { $0.append(frame.payload) } }
            }
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        #expect(recorder.waitForTexts(1) == ["one text"])
        #expect(pongs.wait(milliseconds: 30_000) { $0.isEmpty ? nil : $0 } == [[1, 2, 3]])
        channel.close()
    }

    @Test func theServersGoodbyeIsAnswered() throws {
        let answer = Condition<[UInt8]?>(nil)
        let server = try SocketServer { peer in
            peer.sendFrame(Array("last words".utf8))
            peer.sendFrame(opcode: 8, [0x03, 0xE9] + Array("restart".utf8))
            while let frame = peer.receive() { if frame.opcode == 8 { answer.broadcast { $0 = frame.payload } } }
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        _ = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        #expect(recorder.waitForClosure() == .byPeer(code: 1001, reason: "restart"))
        #expect(recorder.waitForTexts(1) == ["last words"])
        #expect(answer.wait(milliseconds: 30_000) { $0 } == [0x03, 0xE9])
    }

    @Test func whatWasSentBeforeAGoodbyeArrives() throws {
        let count = Condition(0)
        let server = try SocketServer { peer in
            while let frame = peer.receive() {
                if frame.opcode == 1 { count.broadcast { $0 += 1 } }
                if frame.opcode == 8 {
                    peer.sendFrame(opcode: 8, frame.payload)
                    return
                }
            }
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        #expect(recorder.wait { $0.isOpen })
        for _ in 0..<500 { channel.send([UInt8](repeating: 66, count: 5_000)) }
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
        #expect(count.withLock { $0 } == 500)
    }

    @Test func aServerThatIgnoresTheGoodbyeIsLeft() throws {
        let server = try SocketServer { peer in peer.waitForEnd() }
        var settings = TransportSettings()
        settings.closeTimeout = 50
        let transport = try WebSocketTransport(settings)
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        #expect(recorder.wait { $0.isOpen })
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
    }

    @Test func brokenConnectionsAreReported() throws {
        let server = try SocketServer { peer in
            // Half a frame, then no more data.
            peer.send([0x81, 100, 65, 66])
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        _ = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        guard case .broken? = recorder.waitForClosure() else {
            Issue.record("not broken: \(recorder.now.closures)")
            return
        }
        #expect(recorder.now.texts.isEmpty)
    }

    @Test(arguments: [[0x82, 1, 0], [0x81, 0x80, 0, 0, 0, 0], [0x81, 1, 0xFF], [0xF1, 0]] as [[UInt8]])
    func violationsEndTheConnection(bytes: [UInt8]) throws {
        let goodbye = Condition<[UInt8]?>(nil)
        let server = try SocketServer { peer in
            peer.send(bytes)
            while let frame = peer.receive() { if frame.opcode == 8 { goodbye.broadcast { $0 = frame.payload } } }
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        _ = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        guard case .violation? = recorder.waitForClosure() else {
            Issue.record("no violation: \(recorder.now.closures)")
            return
        }
        #expect(goodbye.wait(milliseconds: 30_000) { $0 }?.first == 0x03)
    }

    @Test func messagesAreBounded() throws {
        let server = try SocketServer { peer in
            // A length that exceeds any memory.
            peer.send([0x81, 127, 0x7F, 0, 0, 0, 0, 0, 0, 0])
            peer.waitForEnd()
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        _ = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        guard case .violation? = recorder.waitForClosure() else {
            Issue.record("no violation")
            return
        }
    }

    /// Checks that reading stops while received messages are not processed.
    @Test func readingStopsWhileNothingIsProcessed() throws {
        let sent = Condition(0)
        let isDone = Condition(false)
        let server = try SocketServer { peer in
            let text = [UInt8](repeating: 65, count: 64 * 1024)
            for _ in 0..<512 where peer.sendFrame(text) { sent.broadcast { $0 += 1 } }
            isDone.broadcast { $0 = true }
            peer.waitForEnd()
        }
        var settings = TransportSettings()
        settings.maxUnprocessedBytes = 1 << 20
        let transport = try WebSocketTransport(settings)
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        #expect(recorder.wait { $0.texts.count >= 16 })
        // The sockets' buffers hold some of the data, but not 32 MB, so the server blocks.
        var before = -1
        while before != sent.withLock({ $0 }) {
            before = sent.withLock { $0 }
            usleep(200_000)
        }
        #expect(recorder.now.texts.count <= 20)
        #expect(!isDone.withLock { $0 })
        var processed = 0
        while processed < 512 {
            #expect(recorder.wait { $0.texts.count > processed })
            let count = recorder.now.texts.count
            for _ in processed..<count { channel.processed(64 * 1024) }
            processed = count
        }
        #expect(isDone.wait(milliseconds: 30_000) { $0 ? true : nil } == true)
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
    }

    @Test func slowMessagesAreSignsOfLife() throws {
        let go = Condition(false)
        let server = try SocketServer { peer in
            peer.send([0x81, 10, 65])
            _ = go.wait { $0 ? true : nil }
            peer.send([UInt8](repeating: 65, count: 9))
            peer.waitForEnd()
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        #expect(recorder.wait { $0.progress > 0 })
        #expect(recorder.now.texts.isEmpty)
        go.broadcast { $0 = true }
        #expect(recorder.waitForTexts(1) == ["AAAAAAAAAA"])
        channel.close()
    }

    @Test func noServer() throws {
        let (descriptor, port) = try LocalSocket.listen()
        close(descriptor)
        let transport = try WebSocketTransport()
        for host in ["127.0.0.1", "no-such-name.invalid", "a b", ""] {
            let recorder = ChannelRecorder()
            _ = transport.connect(to: Self.address(port, host: host)) { recorder.take($0) }
            guard case .unreachable? = recorder.waitForClosure() else {
                Issue.record("\(host): \(recorder.now.closures)")
                continue
            }
        }
    }

    @Test func refusalsAreReported() throws {
        let server = try RawServer([
            "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", "220 mail.example ESMTP\r\n", "",
        ])
        let transport = try WebSocketTransport()
        var closures: [TransportClosure?] = []
        for _ in 0..<3 {
            let recorder = ChannelRecorder()
            _ = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
            closures.append(recorder.waitForClosure())
        }
        #expect(closures[0] == .refused(status: 503, "busy"))
        #expect(closures[1] == .refused(status: 0, "the answer is not HTTP"))
        guard case .broken? = closures[2] else {
            Issue.record("\(closures)")
            return
        }
    }

    @Test func aServerThatNeverAnswersIsGivenUp() throws {
        // A busy machine may use the whole time for connecting, so the timeout is increased.
        var closure: TransportClosure?
        for timeout in [100, 1_000, 10_000] as [Int64] {
            let server = try RawServer([""], .staysSilent)
            var settings = TransportSettings()
            settings.openTimeout = timeout
            let transport = try WebSocketTransport(settings)
            let recorder = ChannelRecorder()
            _ = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
            closure = recorder.waitForClosure()
            guard case .unreachable? = closure else { break }
        }
        #expect(closure == .refused(status: 0, "the answer took too long"))
    }

    @Test func closingBeforeItIsOpen() throws {
        let server = try RawServer([""], .staysSilent)
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        channel.send([65])
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
        #expect(!recorder.now.isOpen)
        // The server waits for one connection before it ends.
        if let late = try? LocalSocket.connect(port: server.port) { close(late) }
    }

    /// Checks that all addresses of a name are tried: `localhost` has two on most machines, and the server listens at
    /// one of them.
    @Test func allAddressesOfANameAreTried() throws {
        let server = try SocketServer { peer in
            while let text = peer.receiveText() { peer.sendFrame(text) }
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: Self.address(server.port, host: "localhost")) { recorder.take($0) }
        channel.send([65])
        #expect(recorder.waitForTexts(1) == ["A"])
        channel.close()
    }

    @Test func manyConnectionsShareOneThread() throws {
        let server = try SocketServer { peer in
            while let text = peer.receiveText() { peer.sendFrame(text) }
        }
        let transport = try WebSocketTransport()
        let recorders = (0..<100).map { _ in ChannelRecorder() }
        let channels = recorders.map { recorder in
            transport.connect(to: Self.address(server.port)) { recorder.take($0) }
        }
        for round in 0..<20 { for channel in channels { channel.send(Array("\(round)".utf8)) } }
        for recorder in recorders { #expect(recorder.waitForTexts(20) == (0..<20).map(String.init)) }
        for channel in channels { channel.close() }
        for recorder in recorders { #expect(recorder.waitForClosure() == .byUs) }
    }

    @Test func whenTheTransportGoesItsConnectionsEnd() throws {
        let server = try SocketServer { peer in peer.waitForEnd() }
        let recorder = ChannelRecorder()
        var channel: (any RealtimeChannel)?
        do {
            let transport = try WebSocketTransport()
            channel = transport.connect(to: Self.address(server.port)) { recorder.take($0) }
            #expect(recorder.wait { $0.isOpen })
        }
        #expect(recorder.waitForClosure() == .byUs)
        channel?.send([65])
    }
}
