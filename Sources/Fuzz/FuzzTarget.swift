/// One parser under test.
struct FuzzTarget: Sendable {
    /// As on the command line.
    let name: String
    /// Inputs to begin with.
    let corpus: [String]
    /// Pieces that mutations put in.
    let tokens: [String]
    /// Runs one input. Answers what should not be, or nil; tells the summary what the input did.
    let check: @Sendable (_ input: [UInt8], _ summary: inout Summary) -> String?

    /// All parsers. Those of other rooms (query parameters, frames) join here: corpus, tokens and one function.
    static let all: [FuzzTarget] = [.json, .update, .changes, .path, .parameters, .message]
}

/// What an input did: two inputs with the same summary are alike to the parser.
struct Summary {
    private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    mutating func note(_ number: Int) {
        value = (value ^ UInt64(truncatingIfNeeded: number)) &* 0x0000_0100_0000_01B3
    }

    mutating func note(_ text: String) {
        for byte in text.utf8 { note(Int(byte)) }
    }

    /// Notes the size of a number only: tens are alike, and hundreds.
    mutating func noteSize(_ number: Int) {
        note(Int.bitWidth - number.leadingZeroBitCount)
    }
}
