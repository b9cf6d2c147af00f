import CPostgres
import Glibc

/// The rows of one statement, or its command tag. Values arrive in binary format and are read without copying.
///
/// Rows and columns count from 0. A NULL, a wrong type or an index out of range throws `decoding`.
// @unchecked Sendable is safe: a PGresult is immutable once complete (libpq documents that it may be shared among
// threads), this object is its only owner, and it is freed when the last reference is released.
public final class PostgresResult: @unchecked Sendable {
    let pointer: OpaquePointer

    public let rowCount: Int
    public let columnCount: Int

    /// Takes ownership of `pointer`.
    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
        rowCount = Int(PQntuples(pointer))
        columnCount = Int(PQnfields(pointer))
    }

    deinit {
        PQclear(pointer)
    }

    /// The number of rows that an INSERT, UPDATE, DELETE, SELECT or COPY affected; 0 for other statements.
    public var affectedRows: Int {
        PQcmdTuples(pointer).flatMap { Int(String(cString: $0)) } ?? 0
    }

    /// Returns the name of a column, or nil if the index is out of range.
    public func columnName(_ column: Int) -> String? {
        PQfname(pointer, Int32(clamping: column)).map { String(cString: $0) }
    }

    /// Returns the type of a column.
    public func columnType(_ column: Int) -> PostgresType {
        PostgresType(oid: PQftype(pointer, Int32(clamping: column)))
    }

    /// Whether the value is NULL. True for an index out of range.
    public func isNull(_ row: Int, _ column: Int) -> Bool {
        guard has(row, column) else { return true }
        return PQgetisnull(pointer, Int32(row), Int32(column)) == 1
    }

    /// Returns an int2, int4 or int8.
    public func int64(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        try field(row, column).int64()
    }

    /// Returns an integer that fits into 32 bits.
    public func int32(_ row: Int, _ column: Int) throws(PostgresError) -> Int32 {
        try field(row, column).int32()
    }

    /// Returns the boolean in the field. Throws if the field is not a boolean.
    public func bool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
        try field(row, column).bool()
    }

    /// Returns a float8, float4 or integer.
    public func double(_ row: Int, _ column: Int) throws(PostgresError) -> Double {
        try field(row, column).double()
    }

    /// Returns a timestamptz, in microseconds since 1970-01-01 UTC.
    public func unixMicroseconds(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        try field(row, column).unixMicroseconds()
    }

    /// Returns a value whose binary format is its text: text, varchar, name, json, jsonb, enums. Cast other types with
    /// `::text`.
    public func string(_ row: Int, _ column: Int) throws(PostgresError) -> String {
        try field(row, column).string()
    }

    /// Returns the value's bytes in binary format; for jsonb its text.
    public func bytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8] {
        [UInt8](try field(row, column).payload)
    }

    /// Calls `body` with the value's bytes without copying them, valid only during the call. Returns nil for NULL.
    public func withBytes<Success, Failure: Error>(
        _ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Success
    ) throws(Failure) -> Success? {
        guard !isNull(row, column) else { return nil }
        return try body(unchecked(row, column).payload)
    }

    private func has(_ row: Int, _ column: Int) -> Bool {
        row >= 0 && row < rowCount && column >= 0 && column < columnCount
    }

    func field(_ row: Int, _ column: Int) throws(PostgresError) -> Field {
        guard has(row, column) else {
            throw PostgresError(
                .decoding, "no row \(row), column \(column) in a result of \(rowCount) rows and \(columnCount) columns")
        }
        guard PQgetisnull(pointer, Int32(row), Int32(column)) == 0 else {
            throw PostgresError(.decoding, "NULL in column \(columnName(column) ?? "\(column)") of row \(row)")
        }
        return unchecked(row, column)
    }

    private func unchecked(_ row: Int, _ column: Int) -> Field {
        let start = PQgetvalue(pointer, Int32(row), Int32(column))
        let count = Int(PQgetlength(pointer, Int32(row), Int32(column)))
        return Field(bytes: UnsafeRawBufferPointer(start: start, count: count), type: columnType(column))
    }
}

extension PostgresResult {
    /// Whether the command tag is ROLLBACK. Creates no String.
    var isRollback: Bool {
        PQcmdStatus(pointer).map { strcmp($0, "ROLLBACK") == 0 } ?? false
    }
}

/// One row of a stream, valid only during the call that receives it.
public struct PostgresRow: ~Copyable {
    /// A result that contains only this row.
    private let result: PostgresResult

    init(_ result: PostgresResult) {
        self.result = result
    }

    public var columnCount: Int { result.columnCount }

    /// Returns whether the field is null.
    public func isNull(_ column: Int) -> Bool {
        result.isNull(0, column)
    }

    /// Returns an int2, int4 or int8.
    public func int64(_ column: Int) throws(PostgresError) -> Int64 {
        try result.int64(0, column)
    }

    /// Returns an integer that fits into 32 bits.
    public func int32(_ column: Int) throws(PostgresError) -> Int32 {
        try result.int32(0, column)
    }

    /// Returns the boolean in the field. Throws if the field is not a boolean.
    public func bool(_ column: Int) throws(PostgresError) -> Bool {
        try result.bool(0, column)
    }

    /// Returns a float8, float4 or integer.
    public func double(_ column: Int) throws(PostgresError) -> Double {
        try result.double(0, column)
    }

    /// Returns a timestamptz, in microseconds since 1970-01-01 UTC.
    public func unixMicroseconds(_ column: Int) throws(PostgresError) -> Int64 {
        try result.unixMicroseconds(0, column)
    }

    /// Returns a value whose binary format is its text; see ``PostgresResult/string(_:_:)``.
    public func string(_ column: Int) throws(PostgresError) -> String {
        try result.string(0, column)
    }

    /// Returns the value's bytes in binary format; for jsonb its text.
    public func bytes(_ column: Int) throws(PostgresError) -> [UInt8] {
        try result.bytes(0, column)
    }

    /// Calls `body` with the value's bytes without copying them. Returns nil for NULL.
    public func withBytes<Success, Failure: Error>(
        _ column: Int, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Success
    ) throws(Failure) -> Success? {
        try result.withBytes(0, column, body)
    }
}
