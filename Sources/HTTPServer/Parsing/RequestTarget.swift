/// Where the parts of a request target lie: offsets into its bytes.
///
/// Knows the origin form (`/a?b`), the absolute form (`http://host/a?b`), the asterisk, and the authority form of
/// CONNECT, all of which becomes the path.
struct RequestTarget: Sendable, Equatable {
    /// The authority (`host:port`) of the absolute form, else empty.
    private(set) var authority: Range<Int>
    private(set) var path: Range<Int>
    /// Without the question mark; nil where there is none.
    private(set) var query: Range<Int>?

    /// nil where `bytes` is empty or holds a space, a control character or DEL.
    init?(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard !bytes.isEmpty else { return nil }
        var questionMark = -1
        var end = bytes.count
        for index in 0..<bytes.count {
            let byte = bytes[index]
            guard byte > 0x20, byte != 0x7F else { return nil }
            if byte == 0x3F, questionMark < 0, end == bytes.count { questionMark = index }
            // A fragment is no part of a request target; what stands after `#` is not looked at.
            if byte == 0x23, end == bytes.count { end = index }
        }
        var pathStart = 0
        authority = 0..<0
        let pathEnd = questionMark >= 0 ? questionMark : end
        if bytes[0] != 0x2F, let start = Self.authorityStart(bytes) {
            var index = start
            while index < pathEnd, bytes[index] != 0x2F { index += 1 }
            authority = start..<max(start, index)
            pathStart = max(start, index)
        }
        path = min(pathStart, pathEnd)..<pathEnd
        query = questionMark >= 0 ? (questionMark + 1)..<end : nil
    }

    /// The offset behind `http://` or `https://`.
    private static func authorityStart(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        guard bytes.count > 7, bytes[0] | 0x20 == 0x68, bytes[1] | 0x20 == 0x74, bytes[2] | 0x20 == 0x74,
            bytes[3] | 0x20 == 0x70
        else { return nil }
        let colon = bytes[4] | 0x20 == 0x73 ? 5 : 4
        guard bytes.count > colon + 3, bytes[colon] == 0x3A, bytes[colon + 1] == 0x2F, bytes[colon + 2] == 0x2F
        else { return nil }
        return colon + 3
    }
}
