import TestSupport
import Testing

@testable import Wire

@Suite struct RealtimeSegmentsTests {
    private func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }

    @Test func wholeMessagesAndKeepAlives() {
        var assembler = SegmentAssembler(maxBytes: 100)
        #expect(assembler.take(Array("0".utf8)) == .nothing)
        #expect(assembler.take(Array("{\"t\":1}".utf8)) == .message(Array("{\"t\":1}".utf8)))
        #expect(assembler.take([]) == .message([]))
        // Seven digits are not a count.
        #expect(assembler.take(Array("1234567".utf8)) == .message(Array("1234567".utf8)))
    }

    @Test func segments() {
        var assembler = SegmentAssembler(maxBytes: 100)
        for _ in 0..<2 {
            #expect(assembler.take(Array("3".utf8)) == .nothing)
            // Inside a message a digit is data.
            #expect(assembler.take(Array("0".utf8)) == .nothing)
            #expect(assembler.take([]) == .nothing)
            #expect(assembler.take(Array("ab".utf8)) == .message(Array("0ab".utf8)))
        }
        #expect(assembler.take(Array("1".utf8)) == .nothing)
        #expect(assembler.take(Array("x".utf8)) == .message(Array("x".utf8)))
    }

    @Test func limits() {
        var assembler = SegmentAssembler(maxBytes: 10)
        #expect(assembler.take(Array("12345678901".utf8)) == .tooLong(limit: 10))
        assembler = SegmentAssembler(maxBytes: 10)
        #expect(assembler.take(Array("999999".utf8)) == .nothing)
        #expect(assembler.take(Array("1234567890".utf8)) == .nothing)
        #expect(assembler.take(Array("1".utf8)) == .tooLong(limit: 10))
        assembler = SegmentAssembler(maxBytes: 10)
        #expect(assembler.take(Array("-1".utf8)) == .error("a segment count below zero"))
    }

    @Test func cutting() throws {
        #expect(try #require(Segments.split(Array("short".utf8))).map(text) == ["short"])
        let exact = String(repeating: "x", count: Segments.maxUnits)
        #expect(try #require(Segments.split(Array(exact.utf8))).map(text) == [exact])
        #expect(try #require(Segments.split(Array((exact + "y").utf8))).map(text) == ["2", exact, "y"])
        for character in ["é", "～", "😀"] {
            for shift in 0..<4 {
                let long = String(repeating: "a", count: shift) + String(repeating: character, count: 30_000)
                let pieces = try #require(Segments.split(Array(long.utf8)))
                #expect(text(pieces[0]) == "\(pieces.count - 1)")
                #expect(text(pieces.dropFirst().joined()) == long)
                for piece in pieces.dropFirst() {
                    #expect(text(piece).utf16.count <= Segments.maxUnits)
                    // The piece contains whole characters: none had to be replaced.
                    #expect(Array(text(piece).utf8) == Array(piece))
                }
            }
        }
    }

    @Test func clientsReadFourDigitsOfACount() {
        let most = Segments.maxCount * Segments.maxUnits
        #expect(Segments.split([UInt8](repeating: 0x61, count: most))?.count == Segments.maxCount + 1)
        #expect(Segments.split([UInt8](repeating: 0x61, count: most + 1)) == nil)
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func whatIsCutIsPutTogether(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var assembler = SegmentAssembler(maxBytes: 1 << 20)
        for _ in 0..<50 {
            let message = [UInt8](repeating: 0x7A, count: 7 + random.below(100_000))
            var results: [SegmentAssembler.Result] = []
            for piece in try #require(Segments.split(message)) {
                if random.below(3) == 0, results.allSatisfy({ $0 != .nothing }) {
                    #expect(assembler.take(Array("0".utf8)) == .nothing)
                }
                results.append(assembler.take(Array(piece)))
            }
            #expect(results.last == .message(message))
            #expect(results.dropLast().allSatisfy { $0 == .nothing })
        }
    }
}
