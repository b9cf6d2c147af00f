import TestSupport
import Testing
import Tree
import Wire

/// Checks every reader with mutated bytes: each input results in a value that can be written again, or in an error, and
/// the reader's limits hold.
@Suite struct DecoderFuzzTests {
    private static let pieces: [[UInt8]] = [
        "{", "}", "[", "]", "\"", ":", ",", "null", "true", "-", "1e9", "1e999", "\\u0000", "\\ud800", "é", "😀", ".sv",
        ".value", ".priority", "\"t\"", "\"d\"", "\"a\"", "\"b\"", "\"p\"", "\"q\"", "rm", "/", "\n", "\r\n", "\n\n",
        "data: ", "event: ", "%", "%2", "&", "=", "orderBy=", ".json", "\"s\":", "\"e\":", "\"m\":",
    ].map { Array($0.utf8) }

    private func mutate(_ bytes: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        var bytes = bytes
        for _ in 0...random.below(4) {
            let offset = random.below(bytes.count + 1)
            switch random.below(6) {
            case 0 where offset < bytes.count: bytes[offset] = UInt8(random.below(256))
            case 1 where offset < bytes.count:
                bytes.removeSubrange(offset..<min(bytes.count, offset + 1 + random.below(9)))
            case 2: bytes.insert(contentsOf: random.pick(Self.pieces), at: offset)
            case 3: bytes.removeSubrange(offset...)
            case 4 where offset < bytes.count:
                let copy = bytes[offset..<min(bytes.count, offset + 1 + random.below(20))]
                bytes.insert(contentsOf: Array(copy), at: random.below(bytes.count))
            default: bytes.append(contentsOf: random.pick(Self.pieces))
            }
        }
        return bytes
    }

    @Test(arguments: [501, 502, 503, 504] as [UInt64]) func serverMessages(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        var random = SeededGenerator(seed: seed)
        var understood = 0
        for _ in 0..<6_000 {
            let bytes = mutate(generator.serverMessage().text, &random)
            guard let message = try? ServerMessageParser.parse(bytes) else { continue }
            understood += 1
            let again = try ServerMessageParser.parse(message.text)
            #expect(again == message, "\(string(bytes))")
        }
        #expect(understood > 60, "mutations leave some messages whole")
    }

    @Test(arguments: [511, 512, 513, 514] as [UInt64]) func clientMessages(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        var random = SeededGenerator(seed: seed)
        var understood = 0
        for _ in 0..<6_000 {
            let original = try #require(generator.clientMessage().text)
            let bytes = mutate(original, &random)
            guard let text = (try? ClientMessageParser.parse(bytes))?.text else { continue }
            understood += 1
            let again = try ClientMessageParser.parse(text)
            #expect(again.text == text, "\(string(bytes))")
        }
        #expect(understood > 60)
    }

    @Test(arguments: [521, 522] as [UInt64]) func eventStreams(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        var random = SeededGenerator(seed: seed)
        var understood = 0
        for _ in 0..<4_000 {
            let text = StreamEvent.encode(generator.change(), id: "1.2", form: .export)
            let bytes = mutate(text, &random)
            var parser = EventStreamParser(maxBytes: 300)
            var events: [ServerSentEvent] = []
            do throws(EventStreamError) {
                for start in stride(from: 0, to: bytes.count, by: 7) {
                    try parser.take(bytes[start..<min(bytes.count, start + 7)], into: &events)
                    #expect(parser.waitingBytes <= 600)
                }
            } catch {
                #expect(error == .tooLong(limit: 300))
            }
            for event in events {
                #expect(event.data.count <= 300)
                guard case .change(let change)? = try? StreamUpdate(event) else { continue }
                understood += 1
                var again: [ServerSentEvent] = []
                var second = EventStreamParser(maxBytes: 1 << 16)
                try second.take(StreamEvent.encode(change, id: "", form: .export), into: &again)
                #expect(try again.map { try StreamUpdate($0) } == [.change(change)])
            }
        }
        #expect(understood > 60)
    }

    @Test(arguments: [531, 532] as [UInt64]) func requests(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<4_000 {
            let path = mutate(Array(RequestPath.text(generator.tree.path(maxDepth: 4)).utf8), &random)
            if let read = try? RequestPath.parse(path[...]) {
                #expect(try RequestPath.parse(Array(RequestPath.text(read).utf8)[...]) == read)
            }
            var parameters = RESTParameters()
            parameters.query = generator.query()
            let text = mutate(Array(parameters.text.utf8), &random)
            if let read = try? RESTParameters(text[...]) {
                #expect(try RESTParameters(Array(read.text.utf8)[...]) == read, "\(string(text))")
            }
        }
    }

    /// Checks arbitrary frames: the assembler keeps no more than a message may have, and no message is longer.
    @Test(arguments: [541, 542] as [UInt64]) func frames(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var assembler = SegmentAssembler(maxBytes: 64)
        for _ in 0..<20_000 {
            let frame: [UInt8] =
                switch random.below(4) {
                case 0: Array("\(random.below(12) - 1)".utf8)
                case 1: []
                default: [UInt8](repeating: 0x61, count: random.below(40))
                }
            switch assembler.take(frame) {
            case .nothing: break
            case .message(let message): #expect(message.count <= 64)
            case .error, .tooLong: assembler = SegmentAssembler(maxBytes: 64)
            }
            #expect(assembler.waitingBytes <= 64)
        }
    }
}
