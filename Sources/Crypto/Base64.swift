/// Base64 (RFC 4648): the standard alphabet with padding, and the parts that `Base64URL` shares with it.
public enum Base64 {
    /// Returns the text with padding.
    public static func encode(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        bytes.withUnsafeBytes { append($0, to: &text) }
        return text
    }

    /// Appends the encoded form of bytes.
    static func append(_ bytes: UnsafeRawBufferPointer, to text: inout [UInt8]) {
        var index = 0
        while index < bytes.count {
            let rest = bytes.count - index
            var group = UInt32(bytes[index]) << 16
            if rest > 1 { group |= UInt32(bytes[index + 1]) << 8 }
            if rest > 2 { group |= UInt32(bytes[index + 2]) }
            text.append(digit(group >> 18))
            text.append(digit(group >> 12))
            text.append(rest > 1 ? digit(group >> 6) : UInt8(ascii: "="))
            text.append(rest > 2 ? digit(group) : UInt8(ascii: "="))
            index += 3
        }
    }

    /// Returns the digit for the low six bits.
    private static func digit(_ bits: UInt32) -> UInt8 {
        let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        return alphabet.utf8Start[Int(bits & 63)]
    }

    /// Decodes digits of the alphabet for URLs. Returns the bytes, and the remaining bits at the end, which form no
    /// byte. Skips digits that are `padding`; returns nil for an invalid digit.
    static func decodeURL(
        _ text: some Collection<UInt8>, padding: UInt8? = nil
    ) -> (bytes: [UInt8], unusedBits: UInt32)? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3 + 3)
        var bits: UInt32 = 0
        var bitCount = 0
        for byte in text where byte != padding {
            guard let digit = urlValue(of: byte) else { return nil }
            bits = bits << 6 | digit
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)))
            }
        }
        return (bytes, bits & (1 << UInt32(bitCount) - 1))
    }

    private static func urlValue(of byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}

/// Base64 with the alphabet for URLs and without padding, as tokens use it (RFC 7515).
public enum Base64URL {
    /// Returns the text without padding (RFC 4648 5).
    public static func encode(_ bytes: [UInt8]) -> String {
        var text = Base64.encode(bytes)
        while text.last == UInt8(ascii: "=") { text.removeLast() }
        for index in text.indices {
            if text[index] == UInt8(ascii: "+") { text[index] = UInt8(ascii: "-") }
            if text[index] == UInt8(ascii: "/") { text[index] = UInt8(ascii: "_") }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes a text; returns nil unless `encode` returns exactly this text for some bytes: no padding, no other
    /// characters, no unused bits. So each byte string has exactly one text.
    public static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1, let decoded = Base64.decodeURL(text), decoded.unusedBits == 0 else { return nil }
        return decoded.bytes
    }

    /// Decodes a text tolerantly: skips padding at any position, and drops bits that form no byte. Returns nil for a
    /// character that is neither a digit nor padding.
    public static func decodeTolerantly(_ text: some Collection<UInt8>, padding: UInt8) -> [UInt8]? {
        Base64.decodeURL(text, padding: padding)?.bytes
    }
}

/// Bytes as hexadecimal digits.
public enum Hex {
    /// Returns lower-case digits, two for each byte.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}
