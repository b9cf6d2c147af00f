import CPostgres
import Glibc
import Runtime

/// Writes rows into a COPY … FROM STDIN, in the statement's format: binary (`WITH (FORMAT binary)`) or text.
///
/// For each row, call `beginRow()`, one append per column, and `endRow()`. Rows are collected in one buffer, which is
/// sent to the server whenever it is full. Memory is therefore bounded, and an error for an early row may be reported
/// at a much later one, or at the end of the COPY.
public struct CopyWriter: ~Copyable {
    /// Whether the statement uses the binary format. Values are then sent exactly as the appended type, without
    /// conversion: appending an int8 to an int4 column fails.
    public let isBinary: Bool
    /// The number of columns of the COPY.
    public let columnCount: Int
    /// The number of rows ended so far.
    public private(set) var rowCount = 0

    private let link: PostgresLink
    private let timeoutMilliseconds: Milliseconds
    private var buffer: [UInt8] = []
    private var columnsInRow = 0
    private static let flushBytes = 256 * 1024

    init(_ link: PostgresLink, isBinary: Bool, columnCount: Int, timeoutMilliseconds: Milliseconds) {
        self.link = link
        self.isBinary = isBinary
        self.columnCount = columnCount
        self.timeoutMilliseconds = timeoutMilliseconds
        buffer.reserveCapacity(Self.flushBytes + 16 * 1024)
        if isBinary {
            buffer.append(contentsOf: copySignature)
            buffer.appendBigEndian(UInt64(0))
        }
    }

    /// Begins a row.
    public mutating func beginRow() {
        columnsInRow = 0
        if isBinary {
            buffer.appendBigEndian(Int16(clamping: columnCount))
        }
    }

    /// Appends a whole row as received from `COPY … TO STDOUT`. The COPY must use text format.
    public mutating func appendRow(_ text: UnsafeRawBufferPointer) throws(PostgresError) {
        guard !isBinary else { throw PostgresError(.protocol, "whole rows need COPY in text format") }
        buffer.append(contentsOf: text)
        rowCount += 1
        if buffer.count >= Self.flushBytes { try flush() }
    }

    /// Ends a row.
    ///
    /// - Throws: `invalidParameter` if the row has too many or too few values. The server's error for an earlier row,
    ///   or an error that has closed the connection.
    public mutating func endRow() throws(PostgresError) {
        guard columnsInRow == columnCount else {
            throw PostgresError(
                .invalidParameter, "row \(rowCount + 1) has \(columnsInRow) values for \(columnCount) columns")
        }
        if !isBinary {
            buffer.append(UInt8(ascii: "\n"))
        }
        rowCount += 1
        if buffer.count >= Self.flushBytes {
            try flush()
        }
    }

    /// Appends a null as the next field of the row.
    public mutating func appendNull() {
        column()
        if isBinary {
            buffer.appendBigEndian(Int32(-1))
        } else {
            buffer.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "N")])
        }
    }

    /// Appends a boolean as the next field of the row.
    public mutating func appendBool(_ value: Bool) {
        if isBinary {
            begin(1)
            buffer.appendBool(value)
        } else {
            column()
            buffer.append(value ? UInt8(ascii: "t") : UInt8(ascii: "f"))
        }
    }

    /// Appends a four-byte integer as the next field of the row.
    public mutating func appendInt4(_ value: Int32) {
        if isBinary {
            begin(4)
            buffer.appendBigEndian(value)
        } else {
            appendDecimal(Int64(value))
        }
    }

    /// Appends an eight-byte integer as the next field of the row.
    public mutating func appendInt8(_ value: Int64) {
        if isBinary {
            begin(8)
            buffer.appendBigEndian(value)
        } else {
            appendDecimal(value)
        }
    }

    /// Appends a double as the next field of the row.
    public mutating func appendFloat8(_ value: Double) {
        if isBinary {
            begin(8)
            buffer.appendFloat8(value)
        } else {
            column()
            // Swift's shortest round-trip form. PostgreSQL also reads "inf" and "nan".
            buffer.append(contentsOf: value.description.utf8)
        }
    }

    /// - Throws: `invalidParameter` for U+0000, which PostgreSQL text cannot store.
    public mutating func appendText(_ value: String) throws(PostgresError) {
        // The bytes are not copied: creating an array of them costs more than the rest of the work.
        var value = value
        let holdsNUL = value.withUTF8 { utf8 in
            let utf8 = UnsafeRawBufferPointer(utf8)
            guard !utf8.containsNUL else { return true }
            appendChecked(utf8)
            return false
        }
        if holdsNUL { throw self.holdsNUL() }
    }

    /// Appends a text from UTF-8.
    public mutating func appendText(_ utf8: [UInt8]) throws(PostgresError) {
        // A closure given to `withUnsafeBytes` cannot both mutate self and throw a typed error.
        guard !utf8.withUnsafeBytes({ $0.containsNUL }) else { throw holdsNUL() }
        utf8.withUnsafeBytes { appendChecked($0) }
    }

    /// Appends a text from UTF-8 that the caller owns.
    public mutating func appendText(_ utf8: UnsafeRawBufferPointer) throws(PostgresError) {
        guard !utf8.containsNUL else { throw holdsNUL() }
        appendChecked(utf8)
    }

    /// Appends a `bytea` as the next field of the row.
    public mutating func appendBytea(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { appendBytea($0) }
    }

    /// Appends a bytea from bytes that the caller owns.
    public mutating func appendBytea(_ bytes: UnsafeRawBufferPointer) {
        if isBinary {
            begin(bytes.count)
            buffer.append(contentsOf: bytes)
            return
        }
        column()
        // The backslash of \x is escaped for COPY.
        buffer.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "\\"), UInt8(ascii: "x")])
        for byte in bytes {
            buffer.append(hexDigit(byte >> 4))
            buffer.append(hexDigit(byte & 15))
        }
    }

    /// Appends JSON text for a jsonb column.
    public mutating func appendJSONB(_ utf8: [UInt8]) throws(PostgresError) {
        guard isBinary else { return try appendText(utf8) }
        begin(utf8.count + 1)
        utf8.withUnsafeBytes { buffer.appendJSONB($0) }
    }

    /// Appends microseconds since 1970-01-01 UTC, for a timestamptz column. Binary format only.
    public mutating func appendTimestamp(unixMicroseconds: Int64) throws(PostgresError) {
        guard isBinary else {
            throw PostgresError(.protocol, "timestamps need COPY … WITH (FORMAT binary)")
        }
        begin(8)
        buffer.appendTimestamp(unixMicroseconds: unixMicroseconds)
    }

    /// Appends days since 1970-01-01, for a date column. Binary format only.
    public mutating func appendDate(unixDays: Int) {
        begin(4)
        buffer.appendDate(unixDays: unixDays)
    }

    /// Appends an array, for a column of its type. Binary format only.
    ///
    /// - Throws: `invalidParameter` for U+0000 in a text.
    public mutating func append(_ array: PostgresArray) throws(PostgresError) {
        guard array.indexOfTextWithNUL == nil else { throw holdsNUL() }
        var bytes: [UInt8] = []
        array.encode(into: &bytes)
        appendBytea(bytes)
    }

    private mutating func appendDecimal(_ value: Int64) {
        column()
        buffer.append(contentsOf: value.description.utf8)
    }

    private mutating func appendChecked(_ utf8: UnsafeRawBufferPointer) {
        if isBinary {
            begin(utf8.count)
            buffer.append(contentsOf: utf8)
            return
        }
        column()
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "\\"): buffer.append(contentsOf: [byte, byte])
            case UInt8(ascii: "\n"): buffer.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "n")])
            case UInt8(ascii: "\r"): buffer.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "r")])
            case UInt8(ascii: "\t"): buffer.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "t")])
            default: buffer.append(byte)
            }
        }
    }

    private func holdsNUL() -> PostgresError {
        PostgresError(
            .invalidParameter,
            "column \(columnsInRow + 1) of row \(rowCount + 1) holds U+0000, which PostgreSQL text cannot store")
    }

    private mutating func begin(_ length: Int) {
        columnsInRow += 1
        buffer.appendBigEndian(Int32(clamping: length))
    }

    private mutating func column() {
        if !isBinary && columnsInRow > 0 {
            buffer.append(UInt8(ascii: "\t"))
        }
        columnsInRow += 1
    }

    /// Sends the remaining rows, with the binary format's trailer.
    mutating func finish() throws(PostgresError) {
        if isBinary {
            buffer.appendBigEndian(Int16(-1))
        }
        try flush()
    }

    private mutating func flush() throws(PostgresError) {
        guard !buffer.isEmpty else { return }
        // If the body continues after an error, it must not use a connection that the error has closed.
        guard link.isOpen else { throw PostgresError(.connectionLost, "the connection is closed") }
        defer { buffer.removeAll(keepingCapacity: true) }
        let sent = buffer.withUnsafeBytes {
            PQputCopyData(
                link.connection, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(clamping: $0.count))
        }
        // -1: the server has ended the COPY with an error, or the connection is lost; 0: out of memory.
        // `copyIn` determines the cause when it reads the result.
        guard sent == 1 else { throw CopyWriter.stopped }
        try link.flush(until: .silence(ms: timeoutMilliseconds))
    }

    /// Thrown if the server has stopped the COPY. `copyIn` replaces it with the server's error.
    static let stopped = PostgresError(.protocol, "the server stopped the COPY")
}

/// The beginning of binary COPY data. Eight bytes of flags and extension length follow.
let copySignature: [UInt8] = [0x50, 0x47, 0x43, 0x4F, 0x50, 0x59, 0x0A, 0xFF, 0x0D, 0x0A, 0x00]

private func hexDigit(_ nibble: UInt8) -> UInt8 {
    nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10
}
