internal import CSQLite

/// A compiled statement. Bind its parameters (numbered from 1), step through its rows, and reset it before the next use.
/// Confined to its connection's thread.
public final class SQLiteStatement {
    private let pointer: OpaquePointer
    private let connection: SQLiteConnection
    private let sql: String

    init(_ pointer: OpaquePointer, of connection: SQLiteConnection, sql: String) {
        self.pointer = pointer
        self.connection = connection
        self.sql = sql
    }

    deinit { if connection.isOpen { sqlite3_finalize(pointer) } }

    private func checkOpen() throws(SQLiteError) {
        guard connection.isOpen else {
            throw SQLiteError(code: SQLITE_MISUSE, operation: sql, reason: "the connection is closed")
        }
    }

    // MARK: Parameters

    /// Makes SQLite copy the bound value.
    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }

    /// Binds an integer.
    public func bind(_ index: Int32, _ value: Int64) throws(SQLiteError) {
        try checkOpen()
        try connection.check(sqlite3_bind_int64(pointer, index, value), sql)
    }

    /// Binds a blob.
    public func bind(_ index: Int32, _ value: [UInt8]) throws(SQLiteError) {
        try checkOpen()
        let code = value.withUnsafeBytes { bytes in
            // An empty blob must not become null.
            bytes.isEmpty
                ? sqlite3_bind_zeroblob(pointer, index, 0)
                : sqlite3_bind_blob64(pointer, index, bytes.baseAddress, UInt64(bytes.count), Self.transient)
        }
        try connection.check(code, sql)
    }

    /// Binds a string, which may contain NUL characters.
    public func bind(_ index: Int32, _ value: String) throws(SQLiteError) {
        try checkOpen()
        var text = value
        let code = text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                sqlite3_bind_text64(
                    pointer, index, characters.baseAddress, UInt64(characters.count), Self.transient,
                    UInt8(SQLITE_UTF8))
            }
        }
        try connection.check(code, sql)
    }

    /// Binds null.
    public func bindNull(_ index: Int32) throws(SQLiteError) {
        try checkOpen()
        try connection.check(sqlite3_bind_null(pointer, index), sql)
    }

    // MARK: Running

    /// Advances to the next row. At the end, returns false and resets the statement.
    public func step() throws(SQLiteError) -> Bool {
        try checkOpen()
        let code = sqlite3_step(pointer)
        if code == SQLITE_ROW { return true }
        // The reset clears the reason.
        let failure = code == SQLITE_DONE ? nil : connection.failure(code, sql)
        sqlite3_reset(pointer)
        if let failure { throw failure }
        return false
    }

    /// Runs a statement, ignores its rows, and resets it.
    public func run() throws(SQLiteError) {
        if try step() { reset() }
    }

    /// Ends the rows, so that the statement can run again. The parameters keep their values.
    public func reset() { if connection.isOpen { sqlite3_reset(pointer) } }

    // MARK: Columns of the current row, numbered from 0

    /// Returns an integer, or 0 for null.
    public func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(pointer, column) }

    /// Returns whether the column is null.
    public func isNull(_ column: Int32) -> Bool { sqlite3_column_type(pointer, column) == SQLITE_NULL }

    /// Returns a copy of a blob or a string, or an empty array for null.
    public func bytes(_ column: Int32) -> [UInt8] { withBytes(column) { Array($0) } }

    /// Passes a blob or a string to `body` without a copy. The bytes are valid until the next step.
    @inline(__always)
    public func withBytes<Result>(_ column: Int32, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        body(rawBytes(column))
    }

    /// Returns the bytes of a blob or a string, which are valid until the next step or reset. For loops that cannot afford a copy.
    public func rawBytes(_ column: Int32) -> UnsafeRawBufferPointer {
        let start = sqlite3_column_blob(pointer, column)
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(pointer, column)))
    }

    /// Returns a copy of a string, or an empty string for null.
    public func text(_ column: Int32) -> String {
        withBytes(column) { String(decoding: $0, as: UTF8.self) }
    }
}
