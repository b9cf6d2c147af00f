/// One parser under test.
struct FuzzTarget: Sendable {
    /// As on the command line.
    let name: String
    /// Inputs to begin with.
    let corpus: [[UInt8]]
    /// Pieces that mutations put in.
    let tokens: [[UInt8]]
    /// The parser's own work on an input, without checks: what `--growth` measures. Nil where there is nothing to it.
    private(set) var work: (@Sendable (_ input: [UInt8]) -> Void)?
    /// Runs one input. Answers what should not be, or nil; tells the summary what the input did.
    let check: @Sendable (_ input: [UInt8], _ summary: inout Summary) -> String?

    init(
        name: String, corpus: [[UInt8]], tokens: [[UInt8]],
        check: @escaping @Sendable (_ input: [UInt8], _ summary: inout Summary) -> String?
    ) {
        self.name = name
        self.corpus = corpus
        self.tokens = tokens
        self.check = check
    }

    /// A parser of text.
    init(
        name: String, corpus: [String], tokens: [String],
        check: @escaping @Sendable (_ input: [UInt8], _ summary: inout Summary) -> String?
    ) {
        self.init(
            name: name, corpus: corpus.map { Array($0.utf8) }, tokens: tokens.map { Array($0.utf8) }, check: check)
    }

    /// The target with work that can be measured.
    func measuring(_ work: @escaping @Sendable (_ input: [UInt8]) -> Void) -> FuzzTarget {
        var target = self
        target.work = work
        return target
    }

    /// All parsers. Another joins here: corpus, tokens and one function.
    static let all: [FuzzTarget] = [
        .json, .update, .changes, .path, .parameters, .message, .serverMessage, .eventStream, .rules, .expression,
        .claims, .token, .mirror, .feed, .feedPlaces, .messageID,
        .encoding, .connection, .serverFrames, .store,
    ]
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

    /// Notes the words of a message without what it quotes, which is the input's.
    mutating func noteWords(of message: String) {
        for part in message.split(whereSeparator: { "'\"".contains($0) }).prefix(1) { note(String(part.prefix(20))) }
    }

    /// Notes the size of a number only: tens are alike, and hundreds.
    mutating func noteSize(_ number: Int) {
        note(Int.bitWidth - number.leadingZeroBitCount)
    }
}
