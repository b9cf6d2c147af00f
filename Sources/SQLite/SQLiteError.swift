internal import CSQLite

/// An error of SQLite.
public struct SQLiteError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an error, by its remedy.
    public enum Kind: Sendable, Equatable {
        /// Another connection has locked the file.
        case inUse
        /// The file is damaged or not a database.
        case damaged
        /// The device or the file has no space left.
        case full
        /// The file or its folder cannot be written.
        case readOnly
        /// The file or its folder cannot be opened or created.
        case cannotOpen
        /// The device failed.
        case inputOutput
        /// An invalid statement or a violated constraint: a defect of the caller.
        case misuse
        case other
    }

    public let kind: Kind
    /// SQLite's extended result code.
    public let code: Int32
    /// The failed operation: SQL without values, or a name.
    public let operation: String
    /// SQLite's message.
    public let reason: String

    public init(code: Int32, operation: String, reason: String) {
        kind = Self.kind(of: code)
        self.code = code
        self.operation = operation
        self.reason = reason
    }

    public var description: String { "SQLite could not do \"\(operation)\": \(reason) (code \(code))" }
}

extension SQLiteError {
    /// Creates the error for a database file that cannot be created or moved.
    public init(failure: PrivateFile.Failure) {
        self.init(code: Self.cannotOpenCode, operation: "create or rename \(failure.path)", reason: failure.description)
    }
}

extension SQLiteError {
    /// The primary code is the lower byte of the extended one.
    static func kind(of code: Int32) -> Kind {
        switch code & 0xFF {
        case SQLITE_BUSY, SQLITE_LOCKED: .inUse
        case SQLITE_CORRUPT, SQLITE_NOTADB: .damaged
        case SQLITE_FULL: .full
        case SQLITE_READONLY, SQLITE_PERM: .readOnly
        case SQLITE_CANTOPEN: .cannotOpen
        case SQLITE_IOERR: .inputOutput
        case SQLITE_ERROR, SQLITE_MISUSE, SQLITE_RANGE, SQLITE_CONSTRAINT, SQLITE_MISMATCH: .misuse
        default: .other
        }
    }
}

extension SQLiteError {
    /// For content that a reader finds damaged although SQLite accepts the file.
    public static let damagedCode = SQLITE_CORRUPT
    /// For an operation that is impossible with the existing file.
    public static let misuseCode = SQLITE_MISUSE
    static let cannotOpenCode = SQLITE_CANTOPEN
}
