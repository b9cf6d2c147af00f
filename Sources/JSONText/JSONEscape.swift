/// The escapes that JSON's strings may hold.
public enum JSONEscape {
    /// Reads the escape whose backslash is at `index`, a pair of surrogates being one, and leaves `index` behind it. After
    /// a fault `index` is where reading stopped.
    ///
    /// - Throws: `openString`, `unknownEscape`, `badHexDigits`, `halfOfPair`.
    public static func scalar(
        in bytes: UnsafeBufferPointer<UInt8>, at index: inout Int
    ) throws(JSONFault) -> Unicode.Scalar {
        index += 1
        guard index < bytes.count else { throw JSONFault(.openString, at: index) }
        index += 1
        switch bytes[index - 1] {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            var code = try codeUnit(in: bytes, at: &index)
            if code & 0xFC00 == 0xD800, index + 1 < bytes.count, bytes[index] == UInt8(ascii: "\\"),
                bytes[index + 1] == UInt8(ascii: "u")
            {
                index += 2
                let low = try codeUnit(in: bytes, at: &index)
                guard low & 0xFC00 == 0xDC00 else { throw JSONFault(.halfOfPair, at: index) }
                code = 0x1_0000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(code) else { throw JSONFault(.halfOfPair, at: index) }
            return scalar
        default: throw JSONFault(.unknownEscape, at: index - 1)
        }
    }

    private static func codeUnit(
        in bytes: UnsafeBufferPointer<UInt8>, at index: inout Int
    ) throws(JSONFault) -> UInt32 {
        let start = index
        var code: UInt32 = 0
        for _ in 0..<4 {
            guard index < bytes.count, let digit = hexDigit(bytes[index]) else {
                throw JSONFault(.badHexDigits, at: start)
            }
            code = code << 4 | UInt32(digit)
            index += 1
        }
        return code
    }

    /// What a hexadecimal digit is worth, in either case.
    public static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
