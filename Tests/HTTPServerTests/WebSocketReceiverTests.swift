import Testing

@testable import HTTPServer

/// Checks connections of a loop that share parsers: none sees a byte of another's, and none holds a parser between
/// messages.
@Suite struct WebSocketReceiverTests {
    /// Several clients send whole and fragmented texts at once, with pings between, cut anywhere and processed in
    /// turns.
    @Test(arguments: 0..<40) func eachGetsItsOwn(seed: UInt64) {
        var dice = ReceiverDice(seed: seed)
        let parsers = WebSocketParsers(maxMessageBytes: 1 << 20)
        var clients = (0..<8).map { Client($0, parsers, &dice) }
        while let index = clients.indices.filter({ !clients[$0].input.isEmpty }).randomElement(using: &dice) {
            clients[index].takeSome(&dice)
        }
        for client in clients {
            #expect(client.texts == client.expected)
            #expect(client.pongs == client.pings)
            #expect(!client.receiver.isWithinMessage)
        }
    }

    @Test func holdsAParserOnlyWithinAMessage() {
        let receiver = WebSocketReceiver(WebSocketParsers(maxMessageBytes: 100))
        #expect(!receiver.isWithinMessage)
        let whole = Client.frame(0x81, "hello")
        for (position, byte) in whole.enumerated() {
            let isLast = position == whole.count - 1
            #expect([byte].withUnsafeBytes { receiver.take($0) { _ in } })
            #expect(receiver.isWithinMessage == !isLast)
        }
        // A ping between fragments does not end a message.
        let frames = [Client.frame(0x01, "a"), Client.frame(0x89, ""), Client.frame(0x80, "b")]
        for (frame, isWithin) in zip(frames, [true, true, false]) {
            #expect(frame.withUnsafeBytes { receiver.take($0) { _ in } })
            #expect(receiver.isWithinMessage == isWithin)
        }
    }

    /// A protocol violation ends that connection; its parser is not reused.
    @Test(arguments: [
        Client.frame(0xC1, "reserved bit"), Client.frame(0x80, "nothing to continue"), Client.frame(0x83, "reserved"),
        Client.frame(0x09, "a ping in fragments"), [0x81, 2, 1, 2],
        Client.frame(0x81, String(repeating: "x", count: 101)),
        Client.frame(0x88, ""), [0x81, 0x81, 0, 0, 0, 0, 0xFF], [0x81, 0xFE, 0, 1, 0, 0, 0, 0, 65],
        Client.frame(0x01, "a") + Client.frame(0x81, "b"),
    ])
    func brokenOnesStayAlone(bytes: [UInt8]) {
        let parsers = WebSocketParsers(maxMessageBytes: 100)
        let broken = WebSocketReceiver(parsers)
        #expect(!bytes.withUnsafeBytes { broken.take($0) { _ in } })
        let other = WebSocketReceiver(parsers)
        var texts: [[UInt8]] = []
        let isGood = Client.frame(0x81, "fine").withUnsafeBytes {
            other.take($0) { if case .text(let text) = $0 { texts.append(text) } }
        }
        #expect(isGood && texts == [Array("fine".utf8)])
        #expect(other.takeOutput().isEmpty)
    }

    private struct Client {
        let receiver: WebSocketReceiver
        var input: ArraySlice<UInt8> = []
        var expected: [[UInt8]] = []
        var texts: [[UInt8]] = []
        var pings = 0
        var pongs = 0

        init(_ number: Int, _ parsers: WebSocketParsers, _ dice: inout ReceiverDice) {
            receiver = WebSocketReceiver(parsers)
            var bytes: [UInt8] = []
            for message in 0..<12 {
                let size = [0, 3, 120, 126, 200, 70_000].randomElement(using: &dice) ?? 0
                let text = "\(number).\(message)é" + String(repeating: "x", count: size)
                expected.append(Array(text.utf8))
                var pieces = [ArraySlice(text.utf8)]
                for _ in 0..<Int.random(in: 0...3, using: &dice) {
                    guard let last = pieces.popLast() else { break }
                    let cut = Int.random(in: last.startIndex...last.endIndex, using: &dice)
                    pieces += [last[..<cut], last[cut...]]
                }
                for (position, piece) in pieces.enumerated() {
                    let opcode: UInt8 = position == 0 ? 1 : 0
                    let end: UInt8 = position == pieces.count - 1 ? 0x80 : 0
                    bytes += Self.frame(opcode | end, piece, mask: .random(in: .min ... .max, using: &dice))
                    if Bool.random(using: &dice) {
                        bytes += Self.frame(0x89, "p")
                        pings += 1
                    }
                }
            }
            input = bytes[...]
        }

        mutating func takeSome(_ dice: inout ReceiverDice) {
            let most = [1, 7, 300, 100_000].randomElement(using: &dice) ?? 1
            let piece = Array(input.prefix(Int.random(in: 1...most, using: &dice)))
            input = input.dropFirst(piece.count)
            let isGood = piece.withUnsafeBytes { bytes in
                receiver.take(bytes) { if case .text(let text) = $0 { texts.append(text) } }
            }
            #expect(isGood)
            // A pong has two bytes of head and the ping's one.
            pongs += receiver.takeOutput().count / 3
        }

        static func frame(_ head: UInt8, _ text: String) -> [UInt8] { frame(head, Array(text.utf8)[...], mask: 0x37) }

        static func frame(_ head: UInt8, _ payload: ArraySlice<UInt8>, mask: UInt8) -> [UInt8] {
            var bytes = [head]
            switch payload.count {
            case ..<126: bytes.append(0x80 | UInt8(payload.count))
            case ..<65_536: bytes += [0xFE, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
            default: bytes += [0xFF] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
            }
            return bytes + [mask, mask, mask, mask] + payload.map { $0 ^ mask }
        }
    }
}

/// A random generator with a seed (SplitMix64).
private struct ReceiverDice: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
