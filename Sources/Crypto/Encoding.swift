/// Text forms of bytes.
public enum Base64 {
    /// The standard alphabet with padding.
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

    /// The digit for the low six bits.
    private static func digit(_ bits: UInt32) -> UInt8 {
        let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        return alphabet.utf8Start[Int(bits & 63)]
    }
}

public enum Hex {
    /// Lower-case digits, two a byte.
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
