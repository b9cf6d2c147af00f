internal import JSONText

extension RawJSON {
    /// Whether the whole text is one JSON value (RFC 8259) in UTF-8: what is passed on as it came has to be. Keys may be
    /// anything and come twice. One pass; nesting takes a byte a level.
    public var isJSON: Bool {
        guard String(validating: bytes, as: UTF8.self) != nil else { return false }
        return bytes.withUnsafeBufferPointer { buffer in
            var check = JSONSyntax(buffer)
            return check.isValue()
        }
    }
}

/// Goes over a text once, and builds nothing.
private struct JSONSyntax {
    private var scanner: JSONScanner
    /// The brackets that are open, as the bytes that close them.
    private var open: [UInt8] = []

    init(_ bytes: UnsafeBufferPointer<UInt8>) { scanner = JSONScanner(bytes) }

    mutating func isValue() -> Bool {
        while true {
            scanner.skipSpace()
            guard begin() else { return false }
            // Behind a value; an empty array or object ends as one that has just had its last.
            while true {
                scanner.skipSpace()
                guard let closing = open.last else { return scanner.isAtEnd }
                if scanner.take(closing) {
                    open.removeLast()
                } else if scanner.take(UInt8(ascii: ",")) {
                    scanner.skipSpace()
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
            switch scanner.peek {
            case UInt8(ascii: "["):
                guard scanner.enter(closing: UInt8(ascii: "]")) else { return true }
                open.append(UInt8(ascii: "]"))
            case UInt8(ascii: "{"):
                guard scanner.enter(closing: UInt8(ascii: "}")) else { return true }
                guard key() else { return false }
                open.append(UInt8(ascii: "}"))
            case UInt8(ascii: "\""): return scanner.skipString()
            case UInt8(ascii: "t"): return scanner.take("true")
            case UInt8(ascii: "f"): return scanner.take("false")
            case UInt8(ascii: "n"): return scanner.take("null")
            default: return (try? scanner.number()) != nil
            }
            scanner.skipSpace()
        }
    }

    /// A member's name and the colon.
    private mutating func key() -> Bool {
        guard scanner.peek == UInt8(ascii: "\""), scanner.skipString() else { return false }
        scanner.skipSpace()
        guard scanner.take(UInt8(ascii: ":")) else { return false }
        scanner.skipSpace()
        return true
    }
}
