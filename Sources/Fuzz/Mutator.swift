/// Changes inputs at random. The same seed and inputs give the same changes.
struct Mutator {
    private var state: UInt64
    private let tokens: [[UInt8]]
    /// Bytes at which parsers tend to turn.
    private static let bytes: [UInt8] =
        Array("\"\\{}[]:,./#$-+eE0123456789tfnu \n".utf8) + [
            0, 0x1F, 0x7F, 0x80, 0xBF, 0xC0, 0xC3, 0xED, 0xF0, 0xF4, 0xFF,
        ]

    init(seed: UInt64, tokens: [[UInt8]]) {
        state = seed
        self.tokens = tokens
    }

    mutating func pick<Choice>(_ choices: [Choice]) -> Choice { choices[below(choices.count)] }

    mutating func mutate(_ input: inout [UInt8], others: [[UInt8]]) {
        for _ in 0...below(4) { change(&input, others) }
    }

    private mutating func change(_ input: inout [UInt8], _ others: [[UInt8]]) {
        let place = below(input.count + 1)
        switch below(10) {
        case 0 where place < input.count: input[place] ^= 1 << UInt8(below(8))
        case 1 where place < input.count: input[place] = pick(Self.bytes)
        case 2: input.insert(pick(Self.bytes), at: place)
        case 3, 4: input.insert(contentsOf: pick(tokens), at: place)
        case 5 where place < input.count: input.removeSubrange(place..<min(input.count, place + 1 + below(8)))
        case 6 where place < input.count:
            // A piece again, elsewhere.
            let piece = Array(input[place..<min(input.count, place + 1 + below(32))])
            input.insert(contentsOf: piece, at: below(input.count + 1))
        case 7:
            // A piece many times: depth, length.
            let piece = Array(input[place..<min(input.count, place + 1 + below(8))])
            for _ in 0..<below(60) { input.insert(contentsOf: piece, at: place) }
        case 8:
            let other = pick(others)
            let from = below(other.count + 1)
            input.replaceSubrange(place..., with: other[from...])
        case 9: input.removeSubrange(place...)
        default: input.append(UInt8(truncatingIfNeeded: next()))
        }
    }

    mutating func token() -> [UInt8] { pick(tokens) }

    mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

    /// SplitMix64.
    private mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
