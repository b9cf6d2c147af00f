/// A mark, which a gateway sends with data to clients that requested its extension (docs/reference/websocket.md): the
/// entry that the data has reached, and a text with which the client can resume there.
public struct LogMark: Sendable, Equatable {
    /// The seq of the entry at which the data is current.
    public let seq: Int64
    /// An opaque text with which the same client can resume after the entry; nil if the gateway does not offer that.
    public let resumption: String?

    public init(seq: Int64, resumption: String? = nil) {
        self.seq = seq
        self.resumption = resumption
    }

    /// Maximum length of a mark in bytes; those of a gateway have less than 50 bytes.
    private static let maxBytes = 200

    /// Parses `SEQ` or `SEQ-…`; returns nil for any other text.
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

    /// The text, which `init` parses.
    public var text: String { resumption ?? "\(seq)" }

    /// Returns the mark for unchanged data at a later entry.
    public func reached(_ later: Int64) -> LogMark { LogMark(seq: max(seq, later), resumption: resumption) }
}

extension LogMark {
    /// The name of the member that contains the mark, in pushes and answers.
    static let member = "at"

    init?(_ fields: MessageFields) {
        guard let text = fields.string(Self.member), let mark = LogMark(text) else { return nil }
        self = mark
    }
}
