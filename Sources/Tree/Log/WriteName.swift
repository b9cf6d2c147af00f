/// A client's name for one of its writes, so that a write that is sent again after a lost answer is not executed twice
/// (docs/reference/websocket.md). Clients must choose unique names: if a client sends two different writes under one name, the second is
/// ignored.
public struct WriteName: Sendable, Hashable {
    /// A random text of the client, used for one series of numbers: one run of an app.
    public let writer: String
    /// The number of the write. Later writes of a writer have greater numbers.
    public let number: Int64

    /// Returns nil if this is no valid name: see `isWriter` and `numbers`.
    public init?(writer: String, number: Int64) {
        guard Self.isWriter(writer), Self.numbers.contains(number) else { return nil }
        self.writer = writer
        self.number = number
    }

    /// Reads `WRITER.NUMBER`. Returns nil for any other text.
    public init?(_ text: String) {
        guard let dot = text.utf8.lastIndex(of: UInt8(ascii: ".")) else { return nil }
        let digits = text.utf8[text.utf8.index(after: dot)...]
        guard digits.count <= 16, digits.first != UInt8(ascii: "0"),
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let number = Int64(Substring(digits))
        else { return nil }
        self.init(writer: String(text[..<dot]), number: number)
    }

    /// The text from which `init` can read the name.
    public var text: String { "\(writer).\(number)" }

    /// The valid numbers: whole numbers that every client can represent exactly.
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

    /// Returns a unique writer: 128 random bits.
    public static func makeWriter() -> String {
        var generator = SystemRandomNumberGenerator()
        let digits = [generator.next() as UInt64, generator.next() as UInt64].map { number in
            let text = String(number, radix: 36)
            return String(repeating: "0", count: 13 - text.utf8.count) + text
        }
        return digits.joined()
    }
}
