extension RuleSet {
    /// The document as plain JSON: without comments, commas before a closing bracket and a byte order mark, and with line
    /// breaks in strings escaped. It compiles to the same rules.
    public var strictSource: [UInt8] {
        var writer = StrictWriter(source)
        return writer.written()
    }
}

/// Copies a valid document without the parts that only rule files may have.
private struct StrictWriter {
    private let source: [UInt8]
    private var index: Int
    private var text: [UInt8] = []
    /// The offset of a comma in the text after which only white space was written.
    private var comma: Int?

    init(_ source: [UInt8]) {
        self.source = source
        index = source.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        text.reserveCapacity(source.count)
    }

    mutating func written() -> [UInt8] {
        while index < source.count {
            let byte = source[index]
            switch byte {
            case UInt8(ascii: "\""): string()
            case UInt8(ascii: "/"): skipComment()
            default: mark(byte)
            }
        }
        return text
    }

    private mutating func mark(_ byte: UInt8) {
        switch byte {
        case 0x20, 0x09, 0x0A, 0x0D: break
        case UInt8(ascii: ","): comma = text.count
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            if let comma { text.remove(at: comma) }
            comma = nil
        default: comma = nil
        }
        text.append(byte)
        index += 1
    }

    private mutating func string() {
        comma = nil
        repeat {
            let byte = source[index]
            switch byte {
            case 0x0A: text += Array("\\n".utf8)
            case 0x0D: text += Array("\\r".utf8)
            case 0x09: text += Array("\\t".utf8)
            case 0..<0x20:
                let digit = byte & 15
                text += Array("\\u00".utf8) + [0x30 + byte >> 4, digit < 10 ? 0x30 + digit : 0x57 + digit]
            case UInt8(ascii: "\\"):
                text.append(byte)
                index += 1
                if index < source.count { text.append(source[index]) }
            default: text.append(byte)
            }
            index += 1
        } while index < source.count && source[index] != UInt8(ascii: "\"")
        if index < source.count { text.append(source[index]) }
        index += 1
    }

    private mutating func skipComment() {
        let isLine = index + 1 < source.count && source[index + 1] == UInt8(ascii: "/")
        index += 2
        if isLine {
            while index < source.count, source[index] != 0x0A { index += 1 }
            return
        }
        while index + 1 < source.count, source[index] != UInt8(ascii: "*") || source[index + 1] != UInt8(ascii: "/") {
            index += 1
        }
        index += 2
    }
}
