import ClientCore
import ClientSupport
import Runtime
import Testing

@testable import WebSocketClient

/// Tests of servers that send much data at little cost. The time limit ends the test if a cost grows quadratically.
@Suite(.timeLimit(.minutes(5))) struct FloodTests {
    /// Checks a message in fragments of one byte each.
    @Test func manyFragments() throws {
        var reader = FrameReader(maxMessageBytes: 64 << 20)
        let count = 2_000_000
        var bytes: [UInt8] = [0x01, 1, 65]
        for _ in 0..<count { bytes += [0x00, 1, 65] }
        bytes += [0x80, 0]
        var lengths: [Int] = []
        try bytes.withUnsafeBytes { bytes in
            try reader.take(bytes) { event in if case .text(let text) = event { lengths.append(text.count) } }
        }
        #expect(lengths == [count + 1])
    }

    /// Checks pings while the server does not read the answers: only the last one is remembered once the socket is
    /// full.
    @Test func pingsWithoutReading() throws {
        let count = 400_000
        let pongs = Condition<(count: Int, last: [UInt8])>((0, []))
        let server = try SocketServer { peer in
            for number in 0..<count / 1_000 {
                var bytes: [UInt8] = []
                for part in 0..<1_000 {
                    let text = Array("\(number * 1_000 + part) ".utf8)
                    bytes += SocketPeer.frame(opcode: 9, text + [UInt8](repeating: 32, count: 125 - text.count))
                }
                guard peer.send(bytes) else { return }
            }
            while let frame = peer.receive() {
                guard frame.opcode == 10 else { continue }
                pongs.broadcast { $0 = ($0.count + 1, frame.payload) }
            }
        }
        let transport = try WebSocketTransport()
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: TransportTests.address(server.port)) { recorder.take($0) }
        let last = pongs.wait(milliseconds: 50_000) { pongs in
            String(decoding: pongs.last, as: UTF8.self).hasPrefix("\(count - 1) ") ? pongs.count : nil
        }
        #expect(last.map { $0 < count } == true, "\(last ?? -1) of \(count) were answered")
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
    }

    /// Checks that empty messages, which have no bytes of content, still count against the limit.
    @Test func emptyMessages() throws {
        let count = 500_000
        let server = try SocketServer { peer in
            let frame = SocketPeer.frame([])
            guard peer.send(Array([[UInt8]](repeating: frame, count: count).joined())) else { return }
            peer.waitForEnd()
        }
        var settings = TransportSettings()
        settings.maxUnprocessedBytes = 256 * 1_000
        let transport = try WebSocketTransport(settings)
        let recorder = ChannelRecorder()
        let channel = transport.connect(to: TransportTests.address(server.port)) { recorder.take($0) }
        // The messages of one read are reported together.
        let most = 1_000 + 128 * 1024 / 2
        var processed = 0
        while processed < count {
            #expect(recorder.wait { $0.texts.count > processed })
            let seen = recorder.now.texts.count
            #expect(seen - processed <= most)
            for _ in processed..<seen { channel.processed(0) }
            processed = seen
        }
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
    }

    /// Checks that the client does not wait forever for a server that answers the close frame with more data.
    @Test func talkingOnAfterTheGoodbye() throws {
        let server = try SocketServer { peer in
            let frame = SocketPeer.frame([UInt8](repeating: 65, count: 10_000))
            while peer.send(frame) {}
        }
        var settings = TransportSettings()
        settings.closeTimeout = 100
        let transport = try WebSocketTransport(settings)
        let recorder = ChannelRecorder(keepsTexts: false)
        let channel = transport.connect(to: TransportTests.address(server.port)) { recorder.take($0) }
        #expect(recorder.wait { $0.byteCount > 0 })
        for _ in 0..<1_000 { channel.send([UInt8](repeating: 66, count: 10_000)) }
        channel.close()
        #expect(recorder.waitForClosure() == .byUs)
    }
}
