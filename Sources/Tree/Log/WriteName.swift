/// What a client calls one of its writes, so that the same write, sent again after a lost answer, is not done again
/// (docs/reference/websocket.md). Names are a client's own affair: who sends two different writes under one name has the second left out.
public struct WriteName: Sendable, Hashable {
    /// Random text of the client's, for as long as it numbers its writes by itself: one run of an app.
    public let writer: String
    /// Later writes of the writer have greater numbers.
    public let number: Int64

    /// Nil for what is no name: see `isWriter` and `numbers`.
    public init?(writer: String, number: Int64) {
        guard Self.isWriter(writer), Self.numbers.contains(number) else { return nil }
        self.writer = writer
        self.number = number
    }

    /// Reads `WRITER.NUMBER`; nil for any other text.
    public init?(_ text: String) {
        guard let dot = text.utf8.lastIndex(of: UInt8(ascii: ".")) else { return nil }
        let digits = text.utf8[text.utf8.index(after: dot)...]
        guard digits.count <= 16, digits.first != UInt8(ascii: "0"),
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let number = Int64(Substring(digits))
        else { return nil }
        self.init(writer: String(text[..<dot]), number: number)
    }

    /// The text; `init` reads it back.
    public var text: String { "\(writer).\(number)" }

    /// What numbers may be: whole numbers that every client can tell apart.
    public static let numbers: ClosedRange<Int64> = 1...(1 << 53)

    /// Whether a text may be a writer: 8 to 40 letters, digits, `-` or `_`.
    public static func isWriter(_ text: String) -> Bool {
        (8...40).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// A writer that nobody else is: 128 random bits.
    public static func makeWriter() -> String {
        var generator = SystemRandomNumberGenerator()
        let digits = [generator.next() as UInt64, generator.next() as UInt64].map { number in
            let text = String(number, radix: 36)
            return String(repeating: "0", count: 13 - text.utf8.count) + text
        }
        return digits.joined()
    }
}
