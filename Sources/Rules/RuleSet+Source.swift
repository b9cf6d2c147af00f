extension RuleSet {
    /// The document without its comments: plain JSON.
    public var strictSource: [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(source.count)
        var index = 0
        var isInString = false
        while index < source.count {
            let byte = source[index]
            let next = index + 1 < source.count ? source[index + 1] : 0
            if isInString {
                text.append(byte)
                if byte == UInt8(ascii: "\\"), index + 1 < source.count {
                    text.append(next)
                    index += 1
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
            } else if byte == UInt8(ascii: "/"), next == UInt8(ascii: "/") {
                while index < source.count, source[index] != 0x0A { index += 1 }
                continue
            } else if byte == UInt8(ascii: "/"), next == UInt8(ascii: "*") {
                index += 2
                while index + 1 < source.count,
                    !(source[index] == UInt8(ascii: "*") && source[index + 1] == UInt8(ascii: "/"))
                {
                    index += 1
                }
                index += 1
            } else {
                isInString = byte == UInt8(ascii: "\"")
                text.append(byte)
            }
            index += 1
        }
        return text
    }
}
