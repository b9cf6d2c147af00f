import Testing
import Tree

struct PushIDTests {
    private static let alphabet = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

    @Test func `twenty characters, the first eight of which are the time`() {
        var generator = PushIDGenerator()
        var random = SeededGenerator(seed: 1)
        // Computed with the published algorithm: 1 700 000 000 000 in base 64, most significant digit first.
        let id = generator.next(milliseconds: 1_700_000_000_000, using: &random)
        #expect(id.utf8.count == 20)
        #expect(id.allSatisfy(Self.alphabet.contains))
        #expect(id.prefix(8) == "-NjEtLV-")
        #expect(generator.next(milliseconds: 0x0000_FFFF_FFFF_FFFF, using: &random).prefix(8) == "zzzzzzzz")
    }

    @Test func `ids ascend, also within a millisecond and when the clock steps back`() {
        var generator = PushIDGenerator()
        var random = SeededGenerator(seed: 2)
        var last = ""
        for step in 0..<20_000 {
            let time = 1_700_000_000_000 + Int64(step / 500) - (step % 7 == 0 ? 50 : 0)
            let id = generator.next(milliseconds: time, using: &random)
            #expect(Key(last) < Key(id))
            last = id
        }
    }

    @Test func `the random part carries`() {
        var generator = PushIDGenerator()
        var ones = FixedGenerator(value: .max)
        let first = generator.next(milliseconds: 1, using: &ones)
        #expect(first == "-------0zzzzzzzzzzzz")
        // With all digits at their maximum, the part wraps. That takes 2^72 ids in one millisecond.
        #expect(generator.next(milliseconds: 1, using: &ones) == "-------0------------")
        #expect(generator.next(milliseconds: 1, using: &ones) == "-------0-----------0")
    }

    @Test func `two generators differ`() {
        var first = PushIDGenerator()
        var second = PushIDGenerator()
        #expect(first.next(milliseconds: 5) != second.next(milliseconds: 5))
    }

    private struct FixedGenerator: RandomNumberGenerator {
        let value: UInt64
        mutating func next() -> UInt64 { value }
    }
}
