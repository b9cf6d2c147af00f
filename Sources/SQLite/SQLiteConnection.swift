internal import CSQLite

/// An open SQLite database. Confined to one thread together with its statements, which keep it open.
public final class SQLiteConnection {
    fileprivate let pointer: OpaquePointer

    /// Opens a database, and creates it if it does not exist.
    ///
    /// - Parameter patience: How long to wait if another connection has locked the file, in milliseconds.
    public init(_ location: SQLiteLocation, patience: Int32 = 0) throws(SQLiteError) {
        let name =
            switch location {
            case .memory: ":memory:"
            case .file(let path): path
            }
        var opened: OpaquePointer?
        // No mutex: the owner confines the connection to one thread.
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        let code = sqlite3_open_v2(name, &opened, flags, nil)
        guard let opened else {
            throw SQLiteError(code: code, operation: "open \(name)", reason: "no memory is left")
        }
        guard code == SQLITE_OK else {
            let error = SQLiteError(code: code, operation: "open \(name)", reason: Self.reason(opened))
            sqlite3_close_v2(opened)
            throw error
        }
        pointer = opened
        // Disables features that only a manipulated file would use.
        _ = pathmirror_sqlite_distrust(opened)
        sqlite3_extended_result_codes(opened, 1)
        sqlite3_busy_timeout(opened, patience)
    }

    deinit { close() }

    /// Whether the connection is open. False after `close`.
    public private(set) var isOpen = true

    /// Closes the connection and its statements, which can no longer be used. Required before the file is renamed: a connection
    /// that is closed later could delete the write-ahead log of another file of that name.
    public func close() {
        guard isOpen else { return }
        isOpen = false
        while let statement = sqlite3_next_stmt(pointer, nil) { sqlite3_finalize(statement) }
        sqlite3_close_v2(pointer)
    }

    /// Runs one or more statements without parameters. Ignores their rows.
    public func execute(_ sql: String) throws(SQLiteError) {
        try check(sqlite3_exec(pointer, sql, nil, nil, nil), sql)
    }

    /// Compiles a statement for repeated use.
    public func prepare(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v3(pointer, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil), sql)
        guard let statement else {
            throw SQLiteError(code: SQLITE_MISUSE, operation: sql, reason: "there is no statement in the text")
        }
        return SQLiteStatement(statement, of: self, sql: sql)
    }

    /// Returns the integer in the first column of the first row, or nil if there is no row.
    public func integer(_ sql: String) throws(SQLiteError) -> Int64? {
        let statement = try prepare(sql)
        return try statement.step() ? statement.integer(0) : nil
    }

    /// Returns the string in the first column of the first row, or nil if there is no row.
    public func text(_ sql: String) throws(SQLiteError) -> String? {
        let statement = try prepare(sql)
        return try statement.step() ? statement.text(0) : nil
    }

    /// Whether a transaction is open. Some errors end a transaction.
    public var isInTransaction: Bool { sqlite3_get_autocommit(pointer) == 0 }

    func check(_ code: Int32, _ operation: String) throws(SQLiteError) {
        guard code != SQLITE_OK else { return }
        throw SQLiteError(code: code, operation: operation, reason: Self.reason(pointer))
    }

    func failure(_ code: Int32, _ operation: String) -> SQLiteError {
        SQLiteError(code: code, operation: operation, reason: Self.reason(pointer))
    }

    private static func reason(_ pointer: OpaquePointer) -> String {
        sqlite3_errmsg(pointer).map { String(cString: $0) } ?? "no reason was given"
    }
}

extension SQLiteConnection {
    /// Makes the committed transactions durable against power failure. `PRAGMA synchronous = FULL` does this for every commit; this
    /// method, for the commits that need it. Only for databases with a write-ahead log.
    public func syncLog() throws(SQLiteError) {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let operation = "synchronise the write-ahead log"
        try check(sqlite3_file_control(pointer, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file), operation)
        // A database in memory has no such file, and needs no durability.
        guard let file, let methods = file.pointee.pMethods, let sync = methods.pointee.xSync else { return }
        let code = sync(file, SQLITE_SYNC_NORMAL)
        guard code == SQLITE_OK else {
            throw SQLiteError(code: code, operation: operation, reason: String(cString: sqlite3_errstr(code)))
        }
    }
}

/// The location of an SQLite database.
public enum SQLiteLocation: Sendable, Equatable {
    case memory
    case file(String)
}
