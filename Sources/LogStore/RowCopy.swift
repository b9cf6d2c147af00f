import Postgres

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
