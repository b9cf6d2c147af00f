import Crypto
import Postgres

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

/// Rows of `pathmirror.node` as binary COPY.
enum RowCopy {
    static let sql = "copy pathmirror.node (namespace_id, path, rest, value, version) from stdin (format binary)"

    static func write(
        _ namespace: Int64, _ path: StoredPath, _ value: [UInt8], _ version: Int64, to writer: inout CopyWriter
    ) throws(PostgresError) {
        writer.beginRow()
        writer.appendInt8(namespace)
        try writer.appendText(path.key)
        if let rest = path.rest { try writer.appendText(rest) } else { writer.appendNull() }
        try writer.appendText(value)
        writer.appendInt8(version)
        try writer.endRow()
    }

    /// The same, of bytes that somebody else owns.
    static func write(
        _ namespace: Int64, _ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ version: Int64,
        to writer: inout CopyWriter
    ) throws(PostgresError) {
        guard path.count <= StoredPath.maxPlainBytes else {
            return try write(namespace, StoredPath(Array(path)), Array(value), version, to: &writer)
        }
        writer.beginRow()
        writer.appendInt8(namespace)
        try writer.appendText(path)
        writer.appendNull()
        try writer.appendText(value)
        writer.appendInt8(version)
        try writer.endRow()
    }
}
