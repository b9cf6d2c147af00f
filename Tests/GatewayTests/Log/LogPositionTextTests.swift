import Engine
import LogStore
import TestSupport
import Testing

@testable import Gateway

/// Checks that a log position survives conversion to an offset and back, and that offsets sort like the log.
struct LogPositionTextTests {
    private static func random(_ generator: inout SeededGenerator) -> LogLinePosition {
        let seq =
            Bool.random(using: &generator)
            ? Int64.random(in: 0...5, using: &generator) : .random(in: 0...LogPositionText.maxSeq, using: &generator)
        let batch =
            Bool.random(using: &generator) ? (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) } : nil
        guard Bool.random(using: &generator) else { return LogLinePosition(LogPosition(seq: seq, batch: batch)) }
        let part =
            Bool.random(using: &generator)
            ? Int32.random(in: 0...4, using: &generator) : .random(in: 0 ..< .max, using: &generator)
        let inside = LogLinePosition.Inside(batch: batch, part: part, lines: .random(in: 0...part, using: &generator))
        return LogLinePosition(LogPosition(seq: seq), inside: inside)
    }

    /// The sort key of a log position, as numbers.
    private static func order(_ position: LogLinePosition) -> [Int64] {
        [position.seq, position.inside.map { Int64($0.part) + 1 } ?? 0]
    }

    @Test func `offsets come back, and order as texts`() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<2_000 {
            let (one, other) = (Self.random(&generator), Self.random(&generator))
            let text = LogPositionText.offset(one)
            #expect(LogPositionText.position(offset: text) == one)
            #expect(!text.contains { ",&=?/ ".contains($0) } && text.utf8.count < 256 && text != "-1" && text != "now")
            guard Self.order(one) != Self.order(other) else { continue }
            let isBefore = Self.order(one).lexicographicallyPrecedes(Self.order(other))
            #expect((text < LogPositionText.offset(other)) == isBefore)
        }
    }

    private static let zeros = String(repeating: "0", count: 10)

    @Test(arguments: [
        "", "now", "0", "1_1_1_", "_\(zeros)_\(zeros)_", "000000000000000004_\(zeros)_\(zeros)_",
        "0000000000000000004_\(zeros)_\(zeros)", "0000000000000000004_\(zeros)_0000000001_",
        "0000000000000000004_0000000001_0000000001_", "0000000000000000004_4294967296_\(zeros)_",
        "٠٠٠٠٠٠٠٠٠4_\(zeros)_\(zeros)_", "+000000000000000004_\(zeros)_\(zeros)_",
        "9223372036854775807_0000000001_\(zeros)_", "4611686018427387904_\(zeros)_\(zeros)_",
        "0000000000000000004_2147483648_\(zeros)_", "9999999999999999999_\(zeros)_\(zeros)_",
        "0000000000000000004_\(zeros)_\(zeros)_?", "000000000000000000-_\(zeros)_\(zeros)_",
        "0000000000000000004_\(zeros)_\(zeros)_AAAA_",
        "0000000000000000004_\(zeros)_\(zeros)_" + String(repeating: "A", count: 64),
    ]) func `offsets that are none`(_ text: String) {
        #expect(LogPositionText.position(offset: text) == nil)
    }
}
