/// Base64 with the alphabet for URLs and without padding, as tokens use it (RFC 7515).
public enum Base64URL {
    /// The text without padding (RFC 4648 5).
    public static func encode(_ bytes: [UInt8]) -> String {
        var text = Base64.encode(bytes)
        while text.last == UInt8(ascii: "=") { text.removeLast() }
        for index in text.indices {
            if text[index] == UInt8(ascii: "+") { text[index] = UInt8(ascii: "-") }
            if text[index] == UInt8(ascii: "/") { text[index] = UInt8(ascii: "_") }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Nil unless the text is exactly what `encode` makes of some bytes: no padding, no other characters, no bits that
    /// mean nothing. So each byte string has one text.
    public static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1, let decoded = Base64.decodeURL(text), decoded.unusedBits == 0 else { return nil }
        return decoded.bytes
    }

    /// The same, tolerantly: padding is passed over wherever it stands, and bits that make no byte are dropped. Nil for what
    /// is neither a digit nor padding.
    public static func decodeTolerantly(_ text: some Collection<UInt8>, padding: UInt8) -> [UInt8]? {
        Base64.decodeURL(text, padding: padding)?.bytes
    }
}
