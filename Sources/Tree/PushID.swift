/// Makes push ids: 20 characters that sort by time, and in order of making within a millisecond (reference:
/// rtdb-protocol 6.8). A value type: whoever shares one guards it.
public struct PushIDGenerator: Sendable {
    private static let alphabet = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)
    private var lastTime: Int64 = 0
    private var random: [UInt8] = Array(repeating: 0, count: 12)

    public init() {}

    /// The next id. A clock that steps back does not: the last time goes on being used.
    public mutating func next(
        milliseconds: Int64, using generator: inout some RandomNumberGenerator
    ) -> String {
        let time = max(milliseconds, lastTime)
        if time == lastTime {
            advance()
        } else {
            // Six bits a character, ten characters a draw, since a draw may be a system call.
            var bits: UInt64 = 0
            for index in random.indices {
                if index % 10 == 0 { bits = generator.next() }
                random[index] = UInt8(truncatingIfNeeded: bits & 63)
                bits >>= 6
            }
        }
        lastTime = time
        var text = Array(repeating: UInt8(0), count: 20)
        for index in 0..<8 { text[7 - index] = Self.alphabet[Int(time >> Int64(6 * index)) & 63] }
        for index in random.indices { text[8 + index] = Self.alphabet[Int(random[index])] }
        return String(decoding: text, as: UTF8.self)
    }

    /// The next id. Ids of one generator ascend, also within a millisecond and where the clock steps back.
    public mutating func next(milliseconds: Int64) -> String {
        var generator = SystemRandomNumberGenerator()
        return next(milliseconds: milliseconds, using: &generator)
    }

    private mutating func advance() {
        for index in random.indices.reversed() {
            if random[index] < 63 {
                random[index] += 1
                return
            }
            random[index] = 0
        }
    }
}
