import Runtime
import Testing
import Wire

@testable import Gateway
@testable import HTTPServer

/// Tests of the receiving side of a WebSocket: bytes in pieces of any size become messages, within bounds.
@Suite struct WebSocketConnectionTests {
    /// A class around a connection, with its results.
    private final class Bench {
        let connection: WebSocketConnection
        var messages: [String] = []
        var signs = 0
        var texts = 0
        var isRefused = false
        var tooLong = 0

        init(maxMessageBytes: Int = 1 << 20, memory: MemoryBudget? = nil) {
            let memory = memory ?? MemoryBudget(bytes: 1 << 30, bytesPerAddress: 1 << 30)
            connection = WebSocketConnection(
                WebSocketReceiver(WebSocketParsers(maxMessageBytes: maxMessageBytes)),
                maxMessageBytes: maxMessageBytes, memory
            ) { IPAddress("203.0.113.9") }
            connection.onMessage = { [unowned self] message in
                messages.append(String(decoding: message, as: UTF8.self))
                return !isRefused
            }
            connection.onSign = { [unowned self] in signs += 1 }
            connection.onText = { [unowned self] in texts += 1 }
            connection.onTooLong = { [unowned self] in tooLong += 1 }
        }

        func take(_ bytes: [UInt8]) -> Bool { bytes.withUnsafeBytes { connection.take($0) } }
    }

    /// A client's frame, with a mask that changes nothing.
    private func frame(_ payload: [UInt8], opcode: UInt8 = 1, isFinal: Bool = true) -> [UInt8] {
        var bytes: [UInt8] = [(isFinal ? 0x80 : 0) | opcode]
        switch payload.count {
        case ..<126: bytes.append(0x80 | UInt8(payload.count))
        case ..<65_536: bytes += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [0x80 | 127] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
        }
        return bytes + [0, 0, 0, 0] + payload
    }

    private func text(_ text: String) -> [UInt8] { frame(Array(text.utf8)) }

    @Test func framesAreMessages() {
        let bench = Bench()
        #expect(bench.take(text("{\"a\":1}") + text("{\"b\":2}")))
        #expect(bench.messages == ["{\"a\":1}", "{\"b\":2}"])
        #expect(bench.texts == 2 && bench.signs == 1)
    }

    @Test func everyCutGivesTheSameMessages() {
        let bytes = text("{\"a\":1}") + text("2") + text("{\"x\":") + text("1}") + text("{\"b\":2}")
        for cut in 0...bytes.count {
            let bench = Bench()
            #expect(bench.take(Array(bytes[..<cut])) && bench.take(Array(bytes[cut...])))
            #expect(bench.messages == ["{\"a\":1}", "{\"x\":1}", "{\"b\":2}"], "cut at \(cut)")
        }
    }

    @Test func keepAlivesAreSignsOnly() {
        let bench = Bench()
        #expect(bench.take(text("0")))
        #expect(bench.messages.isEmpty && bench.texts == 1 && bench.signs == 1)
        #expect(bench.take(frame([], opcode: 9)))
        #expect(bench.texts == 1 && bench.signs == 2)
        #expect(bench.connection.takeOutput().first == 0x8A, "a ping is answered")
        #expect(bench.connection.takeOutput().isEmpty)
    }

    @Test func refusedMessagesEndIt() {
        let bench = Bench()
        bench.isRefused = true
        #expect(!bench.take(text("{}") + text("{}")))
        #expect(bench.messages.count == 1, "nothing more is taken")
    }

    @Test func theProtocolHasTextsOnly() {
        #expect(!Bench().take(frame([1, 2, 3], opcode: 2)))
    }

    @Test func unmaskedFramesEndIt() {
        #expect(!Bench().take([0x81, 1, 0x30]))
    }

    @Test func longMessagesHaveABound() {
        let bench = Bench(maxMessageBytes: 1_000)
        #expect(bench.take(frame(Array(repeating: 0x20, count: 1_000))))
        #expect(!bench.take(frame(Array(repeating: 0x20, count: 1_001))))
        let half = frame(Array(repeating: 0x20, count: 600))
        #expect(!Bench(maxMessageBytes: 1_000).take(text("3") + half + half), "in pieces, too")
    }

    /// A message above the limit ends the connection with the status 1009: as a frame, as fragments, or as segments.
    @Test func longMessagesAreDistinguished() {
        let half = Array(repeating: UInt8(ascii: " "), count: 600)
        for bytes in [
            frame(half + half), frame(half, isFinal: false) + frame(half, opcode: 0),
            text("2") + frame(half) + frame(half),
            text("3") + frame(half) + frame(half) + text("{}"),
        ] {
            let bench = Bench(maxMessageBytes: 1_000)
            #expect(!bench.take(bytes))
            #expect(bench.connection.takeOutput() == [0x88, 2, 1009 >> 8, 1009 & 0xFF])
            #expect(bench.tooLong == 1 && bench.messages.isEmpty)
        }
        for bytes in [text("-1"), frame([1], opcode: 2), [0x81, 1, 0x30]] {
            let bench = Bench(maxMessageBytes: 1_000)
            #expect(!bench.take(bytes))
            #expect(bench.tooLong == 0, "these are other mistakes")
        }
    }

    /// Checks that the received part of an incomplete message counts against the sender's memory share until the
    /// message is complete.
    @Test func halfMessagesTakeMemory() {
        let memory = MemoryBudget(bytes: 1 << 20, bytesPerAddress: 100_000)
        let bench = Bench(memory: memory)
        let bytes = frame(Array(repeating: 0x20, count: 60_000))
        #expect(bench.take(Array(bytes.prefix(10_000))))
        #expect(memory.taken == 0, "little is not counted")
        #expect(bench.take(Array(bytes[10_000..<40_000])))
        #expect(memory.taken >= 40_000)
        #expect(bench.take(Array(bytes[40_000...])))
        #expect(memory.taken == 0)
        let long = frame(Array(repeating: 0x20, count: 200_000))
        #expect(bench.take(Array(long.prefix(90_000))))
        #expect(!bench.take(Array(long[90_000..<150_000])), "more than one address may have")
    }
}

@Suite struct HandshakeTests {
    /// Checks the example of RFC 6455, section 1.3.
    @Test func keysAreAccepted() {
        #expect(WebSocketHandler.acceptKey("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    }
}
