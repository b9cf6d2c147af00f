/// The binary forms of values, as parameters, arrays and COPY have them alike: only what stands around them differs.
extension [UInt8] {
    /// One byte.
    mutating func appendBool(_ value: Bool) { append(value ? 1 : 0) }

    /// Eight bytes.
    mutating func appendFloat8(_ value: Double) { appendBigEndian(value.bitPattern) }

    /// Eight bytes: microseconds since 2000.
    mutating func appendTimestamp(unixMicroseconds: Int64) {
        appendBigEndian(unixMicroseconds &- postgresEpochUnixMicroseconds)
    }

    /// Four bytes: days since 2000-01-01.
    mutating func appendDate(unixDays: Int) {
        appendBigEndian(Int32(truncatingIfNeeded: unixDays - postgresEpochUnixDays))
    }

    /// The version, then the text.
    mutating func appendJSONB(_ utf8: UnsafeRawBufferPointer) {
        append(jsonbVersion)
        append(contentsOf: utf8)
    }
}

/// 2000-01-01 00:00 UTC, where PostgreSQL's timestamps begin.
let postgresEpochUnixMicroseconds: Int64 = 946_684_800_000_000
/// 2000-01-01, where PostgreSQL's dates begin.
private let postgresEpochUnixDays = 10_957
/// The first byte of jsonb's binary format.
private let jsonbVersion: UInt8 = 1
