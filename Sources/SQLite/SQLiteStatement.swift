internal import CSQLite

/// A compiled statement. Bind its parameters (numbered from 1), step through its rows, reset it, and again. Confined to
/// its connection's thread.
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

    /// SQLite copies what it is given.
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
            // An empty blob is no null.
            bytes.isEmpty
                ? sqlite3_bind_zeroblob(pointer, index, 0)
                : sqlite3_bind_blob64(pointer, index, bytes.baseAddress, UInt64(bytes.count), Self.transient)
        }
        try connection.check(code, sql)
    }

    /// Binds a text; it may hold zero characters.
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

    /// Goes on to the next row; false when there is none, and the statement is reset then.
    public func step() throws(SQLiteError) -> Bool {
        try checkOpen()
        let code = sqlite3_step(pointer)
        if code == SQLITE_ROW { return true }
        // The reason is gone after the reset.
        let failure = code == SQLITE_DONE ? nil : connection.failure(code, sql)
        sqlite3_reset(pointer)
        if let failure { throw failure }
        return false
    }

    /// Runs a statement whose rows nobody wants, and resets it.
    public func run() throws(SQLiteError) {
        if try step() { reset() }
    }

    /// Ends the rows, so that it can be run again. The parameters stay.
    public func reset() { if connection.isOpen { sqlite3_reset(pointer) } }

    // MARK: The row's columns, numbered from 0

    /// An integer; 0 for null.
    public func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(pointer, column) }

    /// Whether the column has no value.
    public func isNull(_ column: Int32) -> Bool { sqlite3_column_type(pointer, column) == SQLITE_NULL }

    /// A copy of a blob or a text; empty for null.
    public func bytes(_ column: Int32) -> [UInt8] { withBytes(column) { Array($0) } }

    /// Lends a blob or a text, which is there until the next step.
    @inline(__always)
    public func withBytes<Result>(_ column: Int32, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        body(rawBytes(column))
    }

    /// A blob or a text, which is there until the next step or reset: for loops that can't afford a copy.
    public func rawBytes(_ column: Int32) -> UnsafeRawBufferPointer {
        let start = sqlite3_column_blob(pointer, column)
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(pointer, column)))
    }

    /// A copy of a text; empty for null.
    public func text(_ column: Int32) -> String {
        withBytes(column) { String(decoding: $0, as: UTF8.self) }
    }
}
