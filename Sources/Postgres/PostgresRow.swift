/// One row that streams by; valid during the call that receives it, so it cannot be kept.
public struct PostgresRow: ~Copyable {
    /// A result with this row alone.
    private let result: PostgresResult

    init(_ result: PostgresResult) {
        self.result = result
    }

    public var columnCount: Int { result.columnCount }

    /// Whether the column is NULL.
    public func isNull(_ column: Int) -> Bool {
        result.isNull(0, column)
    }

    /// An int2, int4 or int8.
    public func int64(_ column: Int) throws(PostgresError) -> Int64 {
        try result.int64(0, column)
    }

    /// The value of an `int4` column.
    public func int32(_ column: Int) throws(PostgresError) -> Int32 {
        try result.int32(0, column)
    }

    /// The value of a `bool` column.
    public func bool(_ column: Int) throws(PostgresError) -> Bool {
        try result.bool(0, column)
    }

    /// A float8, float4 or integer.
    public func double(_ column: Int) throws(PostgresError) -> Double {
        try result.double(0, column)
    }

    /// A timestamptz, in microseconds since 1970-01-01 UTC.
    public func unixMicroseconds(_ column: Int) throws(PostgresError) -> Int64 {
        try result.unixMicroseconds(0, column)
    }

    /// A value whose binary form is its text; see ``PostgresResult/string(_:_:)``.
    public func string(_ column: Int) throws(PostgresError) -> String {
        try result.string(0, column)
    }

    /// The bytes of a column, as PostgreSQL sent them.
    public func bytes(_ column: Int) throws(PostgresError) -> [UInt8] {
        try result.bytes(0, column)
    }

    /// Calls `body` with the value's bytes in place; returns nil for NULL.
    public func withBytes<Success, Failure: Error>(
        _ column: Int, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Success
    ) throws(Failure) -> Success? {
        try result.withBytes(0, column, body)
    }
}
