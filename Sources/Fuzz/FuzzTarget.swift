/// One parser under test.
struct FuzzTarget: Sendable {
    /// The name on the command line.
    let name: String
    /// The initial inputs.
    let corpus: [[UInt8]]
    /// Pieces that mutations insert.
    let tokens: [[UInt8]]
    /// The parser's own work on an input, without checks, as measured by `--growth`. Nil if there is nothing to
    /// measure.
    private(set) var work: (@Sendable (_ input: [UInt8]) -> Void)?
    /// Runs one input. Returns the violated property, or nil, and notes the effect of the input in the summary.
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

    /// Creates a target for a parser of text.
    init(
        name: String, corpus: [String], tokens: [String],
        check: @escaping @Sendable (_ input: [UInt8], _ summary: inout Summary) -> String?
    ) {
        self.init(
            name: name, corpus: corpus.map { Array($0.utf8) }, tokens: tokens.map { Array($0.utf8) }, check: check)
    }

    /// Returns the target with work to be measured.
    func measuring(_ work: @escaping @Sendable (_ input: [UInt8]) -> Void) -> FuzzTarget {
        var target = self
        target.work = work
        return target
    }

    /// All parsers. A new one needs a corpus, tokens and a function.
    static let all: [FuzzTarget] = [
        .json, .update, .changes, .path, .parameters, .message, .serverMessage, .eventStream, .rules, .expression,
        .claims, .token, .tokenRequest, .mirror, .feed, .feedPositions, .function, .messageID,
        .serviceAccount, .accessToken, .followPlan, .upstreamAddress, .follower,
        .encoding, .connection, .serverFrames, .store,
    ]
}

/// The effect of an input. Inputs with equal summaries count as alike.
struct Summary {
    private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    mutating func note(_ number: Int) {
        value = (value ^ UInt64(truncatingIfNeeded: number)) &* 0x0000_0100_0000_01B3
    }

    mutating func note(_ text: String) {
        for byte in text.utf8 { note(Int(byte)) }
    }

    /// Notes the words of a message up to the first quotation, which comes from the input.
    mutating func noteWords(of message: String) {
        for part in message.split(whereSeparator: { "'\"".contains($0) }).prefix(1) { note(String(part.prefix(20))) }
    }

    /// Notes only the order of magnitude of a number.
    mutating func noteSize(_ number: Int) {
        note(Int.bitWidth - number.leadingZeroBitCount)
    }
}
