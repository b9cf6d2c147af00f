/// The parts of a request target, as offsets into its bytes.
///
/// Supports the origin form (`/a?b`), the absolute form (`http://host/a?b`), the asterisk form, and the authority form
/// of CONNECT, which becomes the path.
struct RequestTarget: Sendable, Equatable {
    /// The authority (`host:port`) of the absolute form, else empty.
    private(set) var authority: Range<Int>
    private(set) var path: Range<Int>
    /// The query without the question mark; nil if there is none.
    private(set) var query: Range<Int>?

    /// Returns nil if `bytes` is empty or contains a space, a control character or DEL.
    init?(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard !bytes.isEmpty else { return nil }
        var questionMark = -1
        var end = bytes.count
        for index in 0..<bytes.count {
            let byte = bytes[index]
            guard byte > 0x20, byte != 0x7F else { return nil }
            if byte == 0x3F, questionMark < 0, end == bytes.count { questionMark = index }
            // A fragment is not part of a request target, so the bytes after `#` are ignored.
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

    /// Returns the offset after `http://` or `https://`.
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
