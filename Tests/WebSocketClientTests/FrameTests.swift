import ClientSupport
import TestSupport
import Testing

@testable import WebSocketClient

/// Checks that frames are parsed for any division into pieces, and written so that a server reads them back.
@Suite struct FrameTests {
    private func read(
        _ bytes: [UInt8], pieces: Int = .max, maxMessageBytes: Int = 1 << 20
    ) -> (events: [FrameReader.Event], violation: FrameReader.Violation?) {
        var reader = FrameReader(maxMessageBytes: maxMessageBytes)
        var events: [FrameReader.Event] = []
        var index = 0
        while index < bytes.count {
            let end = min(bytes.count, index + min(pieces, bytes.count))
            do {
                try Array(bytes[index..<end]).withUnsafeBytes { raw in try reader.take(raw) { events.append($0) } }
            } catch {
                return (events, error as? FrameReader.Violation)
            }
            index = end
        }
        return (events, nil)
    }

    @Test(arguments: 0..<40) func framesCutAnywhere(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var bytes: [UInt8] = []
        var expected: [FrameReader.Event] = []
        for _ in 0..<30 {
            let length = random.pick([0, 1, 125, 126, 127, 300, 65_535, 65_536, 70_000])
            let payload = (0..<length).map { _ in UInt8(random.below(128)) }
            switch random.below(5) {
            case 0:
                bytes += SocketPeer.frame(opcode: 9, Array(payload.prefix(125)))
                expected.append(.ping(Array(payload.prefix(125))))
            case 1:
                bytes += SocketPeer.frame(opcode: 10, [])
                expected.append(.pong)
            case 2:
                let half = length / 2
                bytes += SocketPeer.frame(opcode: 1, isLast: false, Array(payload[..<half]))
                bytes += SocketPeer.frame(opcode: 9, [1])
                bytes += SocketPeer.frame(opcode: 0, isLast: false, [])
                bytes += SocketPeer.frame(opcode: 0, Array(payload[half...]))
                expected += [.ping([1]), .text(payload)]
            default:
                bytes += SocketPeer.frame(payload)
                expected.append(.text(payload))
            }
        }
        for pieces in [1, 2, 7, 1_000, .max] { #expect(read(bytes, pieces: pieces).events == expected) }
    }

    @Test(
        arguments: [
            ([0x81, 0x80, 0, 0, 0, 0], 1002), ([0xC1, 0], 1002), ([0x80, 0], 1002), ([0x82, 0], 1003),
            ([0x83, 0], 1002),
            ([0x09, 0], 1002), ([0x89, 126, 0, 126], 1002), ([0x88, 1, 0], 1002), ([0x01, 0, 0x81, 0], 1002),
            ([0x81, 1, 0xFF], 1007), ([0x81, 2, 0xC3, 0x28], 1007),
            ([0x81, 127, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], 1009),
            ([0x81, 127, 0, 0, 0, 0, 0x7F, 0, 0, 0], 1009),
        ] as [([UInt8], UInt16)])
    func violationsAreFound(bytes: [UInt8], code: UInt16) {
        #expect(read(bytes).violation?.code == code)
        #expect(read(bytes, pieces: 1).violation?.code == code)
    }

    @Test func longMessagesAreRefusedAlsoInFragments() {
        let piece = [UInt8](repeating: 65, count: 600)
        let bytes = SocketPeer.frame(isLast: false, piece) + SocketPeer.frame(opcode: 0, piece)
        #expect(read(bytes, maxMessageBytes: 1_000).violation?.code == 1009)
        #expect(read(bytes, maxMessageBytes: 1_200).events == [.text(piece + piece)])
    }

    @Test func goodbyes() {
        #expect(read([0x88, 0]).events == [.close(code: 1005, reason: "")])
        #expect(read([0x88, 4, 0x03, 0xE9, 0x68, 0x69]).events == [.close(code: 1001, reason: "hi")])
    }

    @Test(arguments: [0, 1, 3, 4, 7, 8, 9, 125, 126, 65_535, 65_536, 100_003])
    func framesAreWrittenMasked(length: Int) {
        var writer = FrameWriter()
        var bytes: [UInt8] = []
        let payload = (0..<length).map { UInt8(truncatingIfNeeded: $0 * 31) }
        writer.text(payload, to: &bytes)
        let headSize = length < 126 ? 2 : length < 65_536 ? 4 : 10
        #expect(bytes[0] == 0x81)
        #expect(bytes[1] & 0x80 != 0)
        let mask = Array(bytes[headSize..<headSize + 4])
        let read = bytes[(headSize + 4)...].enumerated().map { $0.element ^ mask[$0.offset & 3] }
        #expect(read == payload)
        if headSize == 4 { #expect(Int(bytes[2]) << 8 | Int(bytes[3]) == length) }
        if headSize == 10 { #expect(bytes[2..<10].reduce(0) { $0 << 8 | Int($1) } == length) }
    }

    @Test func masksDiffer() {
        var writer = FrameWriter()
        var masks: Set<[UInt8]> = []
        for _ in 0..<100 {
            var bytes: [UInt8] = []
            writer.text([], to: &bytes)
            masks.insert(Array(bytes[2...]))
        }
        #expect(masks.count > 95)
    }
}
