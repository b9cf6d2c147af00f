import Glibc

/// The binary formats of values, which parameters, arrays and COPY share. Only their framing differs.
extension [UInt8] {
    /// Appends one byte.
    mutating func appendBool(_ value: Bool) { append(value ? 1 : 0) }

    /// Appends eight bytes.
    mutating func appendFloat8(_ value: Double) { appendBigEndian(value.bitPattern) }

    /// Appends eight bytes: microseconds since 2000.
    mutating func appendTimestamp(unixMicroseconds: Int64) {
        appendBigEndian(unixMicroseconds &- postgresEpochUnixMicroseconds)
    }

    /// Appends four bytes: days since 2000-01-01.
    mutating func appendDate(unixDays: Int) {
        appendBigEndian(Int32(truncatingIfNeeded: unixDays - postgresEpochUnixDays))
    }

    /// Appends the version, then the text.
    mutating func appendJSONB(_ utf8: UnsafeRawBufferPointer) {
        append(jsonbVersion)
        append(contentsOf: utf8)
    }
}

/// 2000-01-01 00:00 UTC, the epoch of PostgreSQL's timestamps.
let postgresEpochUnixMicroseconds: Int64 = 946_684_800_000_000
/// 2000-01-01, the epoch of PostgreSQL's dates.
private let postgresEpochUnixDays = 10_957
/// The first byte of jsonb's binary format.
private let jsonbVersion: UInt8 = 1

/// The bytes of one non-NULL value in PostgreSQL's binary format, with decoding functions.
struct Field {
    let bytes: UnsafeRawBufferPointer
    /// Nil if the type is unknown, as in binary COPY.
    let type: PostgresType?

    /// Returns an int2, int4, int8 or oid.
    func int64() throws(PostgresError) -> Int64 {
        switch (type, bytes.count) {
        case (.int8, 8), (nil, 8): return bytes.loadBigEndian(Int64.self, at: 0)
        case (.int4, 4), (nil, 4): return Int64(bytes.loadBigEndian(Int32.self, at: 0))
        case (.oid, 4): return Int64(bytes.loadBigEndian(UInt32.self, at: 0))
        case (.int2, 2), (nil, 2): return Int64(bytes.loadBigEndian(Int16.self, at: 0))
        default: throw mismatch("an integer")
        }
    }

    func int32() throws(PostgresError) -> Int32 {
        let wide = try int64()
        guard let narrow = Int32(exactly: wide) else { throw mismatch("a 32-bit integer") }
        return narrow
    }

    func bool() throws(PostgresError) -> Bool {
        guard type == .bool || type == nil, bytes.count == 1 else { throw mismatch("a bool") }
        return bytes[0] != 0
    }

    func double() throws(PostgresError) -> Double {
        switch (type, bytes.count) {
        case (.float8, 8), (nil, 8): return Double(bitPattern: bytes.loadBigEndian(UInt64.self, at: 0))
        case (.float4, 4), (nil, 4): return Double(Float(bitPattern: bytes.loadBigEndian(UInt32.self, at: 0)))
        default: return Double(try int64())
        }
    }

    func unixMicroseconds() throws(PostgresError) -> Int64 {
        guard type == .timestamptz || type == nil, bytes.count == 8 else { throw mismatch("a timestamptz") }
        let (sum, overflow) = bytes.loadBigEndian(Int64.self, at: 0)
            .addingReportingOverflow(postgresEpochUnixMicroseconds)
        // Infinity overflows, and is returned as the greatest value.
        return overflow ? Int64.max : sum
    }

    /// Returns a text. Accepts any type whose binary format is its text: text, varchar, name, json, enums.
    /// Throws for numbers and times.
    func string() throws(PostgresError) -> String {
        switch type {
        case .int8, .int4, .int2, .oid, .bool, .float4, .float8, .timestamptz, .uuid:
            throw mismatch("text")
        default:
            return String(decoding: payload, as: UTF8.self)
        }
    }

    /// The value's bytes. For jsonb, its text without the version byte.
    var payload: UnsafeRawBufferPointer {
        type == .jsonb && bytes.count > 0 ? UnsafeRawBufferPointer(rebasing: bytes[1...]) : bytes
    }

    private func mismatch(_ wanted: String) -> PostgresError {
        let found = type.map { "\($0)" } ?? "\(bytes.count) bytes"
        return PostgresError(.decoding, "asked for \(wanted), but the column is \(found)")
    }
}

extension [UInt8] {
    /// Appends `value` in network byte order, as PostgreSQL's binary formats require.
    mutating func appendBigEndian<Value: FixedWidthInteger>(_ value: Value) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}

extension UnsafeRawBufferPointer {
    /// Returns the integer in network byte order at `offset`. The caller has checked the bounds.
    func loadBigEndian<Value: FixedWidthInteger>(_ type: Value.Type, at offset: Int) -> Value {
        Value(bigEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }

    /// Whether any byte is zero.
    var containsNUL: Bool {
        guard let baseAddress else { return false }
        return memchr(baseAddress, 0, count) != nil
    }
}
