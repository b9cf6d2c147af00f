/// Generates push ids: 20 characters that sort by time, and within a millisecond in the order of generation (reference:
/// rtdb-protocol 6.8). A value type: code that shares a generator must protect it.
public struct PushIDGenerator: Sendable {
    private static let alphabet = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)
    private var lastTime: Int64 = 0
    private var random: [UInt8] = Array(repeating: 0, count: 12)

    public init() {}

    /// Returns the next id. If the clock steps back, the generator continues to use the last time.
    public mutating func next(
        milliseconds: Int64, using generator: inout some RandomNumberGenerator
    ) -> String {
        let time = max(milliseconds, lastTime)
        if time == lastTime {
            advance()
        } else {
            // Six bits per character and ten characters per random number, because a random number may need a system call.
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

    /// Returns the next id. The ids of one generator ascend, also within a millisecond and if the clock steps back.
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
