extension RawJSON {
    /// Whether the whole text is one JSON value (RFC 8259) in UTF-8: what is passed on as it came has to be. Keys may be
    /// anything and come twice. One pass; nesting takes a byte a level.
    public var isJSON: Bool {
        guard String(validating: bytes, as: UTF8.self) != nil else { return false }
        var check = JSONSyntax(bytes)
        return check.isValue()
    }
}

/// Goes over a text once, and builds nothing.
private struct JSONSyntax {
    private let bytes: ArraySlice<UInt8>
    private var index: Int
    /// The brackets that are open, as the bytes that close them.
    private var open: [UInt8] = []

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        index = bytes.startIndex
    }

    private var peek: UInt8? { index < bytes.endIndex ? bytes[index] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        index += 1
        return true
    }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
    }

    mutating func isValue() -> Bool {
        while true {
            skipSpace()
            guard begin() else { return false }
            // Behind a value; an empty array or object ends as one that has just had its last.
            while true {
                skipSpace()
                guard let closing = open.last else { return index == bytes.endIndex }
                if take(closing) {
                    open.removeLast()
                } else if take(UInt8(ascii: ",")) {
                    skipSpace()
                    guard closing == UInt8(ascii: "]") || key() else { return false }
                    break
                } else {
                    return false
                }
            }
        }
    }

    /// Takes a scalar or an empty container, or what comes before the first value inside of a container.
    private mutating func begin() -> Bool {
        while true {
            switch peek {
            case UInt8(ascii: "["):
                index += 1
                skipSpace()
                if take(UInt8(ascii: "]")) { return true }
                open.append(UInt8(ascii: "]"))
            case UInt8(ascii: "{"):
                index += 1
                skipSpace()
                if take(UInt8(ascii: "}")) { return true }
                guard key() else { return false }
                open.append(UInt8(ascii: "}"))
            case UInt8(ascii: "\""): return string()
            case UInt8(ascii: "t"): return word("true")
            case UInt8(ascii: "f"): return word("false")
            case UInt8(ascii: "n"): return word("null")
            default: return number()
            }
            skipSpace()
        }
    }

    /// A member's name and the colon.
    private mutating func key() -> Bool {
        guard string() else { return false }
        skipSpace()
        guard take(UInt8(ascii: ":")) else { return false }
        skipSpace()
        return true
    }

    private mutating func word(_ text: StaticString) -> Bool {
        for offset in 0..<text.utf8CodeUnitCount {
            guard take(text.utf8Start[offset]) else { return false }
        }
        return true
    }

    private mutating func number() -> Bool {
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")), !digits() { return false }
        if take(UInt8(ascii: ".")), !digits() { return false }
        guard let byte = peek, byte | 0x20 == UInt8(ascii: "e") else { return true }
        index += 1
        if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
        return digits()
    }

    private mutating func digits() -> Bool {
        let start = index
        while let byte = peek, byte &- 0x30 <= 9 { index += 1 }
        return index > start
    }

    private mutating func string() -> Bool {
        guard take(UInt8(ascii: "\"")) else { return false }
        while let byte = peek {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return true
            case UInt8(ascii: "\\"): guard escape() else { return false }
            case 0..<0x20: return false
            default: break
            }
        }
        return false
    }

    private mutating func escape() -> Bool {
        guard let byte = peek else { return false }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return true
        case UInt8(ascii: "u"):
            for _ in 0..<4 {
                guard let digit = peek, Self.isHexDigit(digit) else { return false }
                index += 1
            }
            return true
        default: return false
        }
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
        default: false
        }
    }
}
