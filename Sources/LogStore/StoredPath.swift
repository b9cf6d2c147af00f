import Crypto
import Postgres

/// A path as stored in the key column of `pathmirror.node`: unchanged, or, if it is too long for an index row, as its
/// beginning, `#` and a hash, with the rest in a separate column.
struct StoredPath {
    /// The maximum length in bytes of paths that are stored unchanged. Index rows are limited to about 2,700 bytes.
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
        // A character is never split, because PostgreSQL accepts only whole ones.
        while path[cut] & 0xC0 == 0x80 { cut -= 1 }
        key = path[..<cut] + [UInt8(ascii: "#")] + Self.hash(path)
        rest = Array(path[cut...])
    }

    /// Returns the SHA-256 in hexadecimal digits.
    static func hash(_ path: [UInt8]) -> [UInt8] { Array(Hex.encode(Digest.sha256(path)).utf8) }

    /// Returns the whole path from the two columns.
    static func joined(_ key: [UInt8], rest: [UInt8]) -> [UInt8] {
        key.prefix { $0 != UInt8(ascii: "#") } + rest
    }
}

/// Writes rows of `pathmirror.node` for binary COPY.
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

    /// Writes a row from bytes that the caller owns.
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
