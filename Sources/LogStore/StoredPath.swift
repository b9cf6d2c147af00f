import Crypto

/// How a path is written in the key column of `pathmirror.node`: as it is, or, where it is too long for an index row,
/// as its beginning, `#` and a hash, with what is left out in a column of its own.
struct StoredPath {
    /// The most bytes of a path that stay as they are; index rows end at about 2,700 bytes.
    static let maxPlainBytes = 2_000

    let key: [UInt8]
    let rest: [UInt8]?

    init(_ path: [UInt8]) {
        guard path.count > Self.maxPlainBytes else {
            key = path
            rest = nil
            return
        }
        var cut = Self.maxPlainBytes
        // Never between the bytes of one character: PostgreSQL takes whole ones only.
        while path[cut] & 0xC0 == 0x80 { cut -= 1 }
        key = path[..<cut] + [UInt8(ascii: "#")] + Self.hash(path)
        rest = Array(path[cut...])
    }

    /// SHA-256 in hex.
    static func hash(_ path: [UInt8]) -> [UInt8] { Array(Hex.encode(Digest.sha256(path)).utf8) }

    /// The whole path, from the two columns.
    static func joined(_ key: [UInt8], rest: [UInt8]) -> [UInt8] {
        key.prefix { $0 != UInt8(ascii: "#") } + rest
    }
}
