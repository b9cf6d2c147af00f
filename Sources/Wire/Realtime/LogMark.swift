/// How far in the log data is, as a gateway tells clients that asked for its extension (docs/reference/websocket.md).
public struct LogMark: Sendable, Equatable {
    /// The entry as of which the data is.
    public let seq: Int64
    /// By which the gateway lets the same client go on behind it later; nil where it does not. Opaque.
    public let resumption: String?

    public init(seq: Int64, resumption: String? = nil) {
        self.seq = seq
        self.resumption = resumption
    }

    /// The longest text; those of a gateway have less than 50 bytes.
    private static let maxBytes = 200

    /// Reads `SEQ` or `SEQ-…`. Nil for any other text.
    public init?(_ text: String) {
        guard text.utf8.count <= Self.maxBytes else { return nil }
        let digits = text.utf8.prefix { (0x30...0x39).contains($0) }
        guard !digits.isEmpty, let seq = Int64(Substring(digits)) else { return nil }
        if digits.count == text.utf8.count {
            self.init(seq: seq)
        } else if text.utf8[digits.endIndex] == UInt8(ascii: "-") {
            self.init(seq: seq, resumption: text)
        } else {
            return nil
        }
    }

    /// The text; `init` reads it back.
    public var text: String { resumption ?? "\(seq)" }

    /// The same, of data that has come further without a change.
    public func reached(_ later: Int64) -> LogMark { LogMark(seq: max(seq, later), resumption: resumption) }
}

extension LogMark {
    /// The name of the member that has it, in pushes and answers.
    static let member = "at"

    init?(_ fields: MessageFields) {
        guard let text = fields.string(Self.member), let mark = LogMark(text) else { return nil }
        self = mark
    }
}
