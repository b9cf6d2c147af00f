internal import CSQLite

/// Why SQLite did not do what it was asked for.
public struct SQLiteError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What can be done about it.
    public enum Kind: Sendable, Equatable {
        /// Another connection has the file.
        case inUse
        /// The file is damaged, or no database.
        case damaged
        /// No space is left on the device, or for the file.
        case full
        /// The file or its folder can't be written.
        case readOnly
        /// The file or its folder can't be opened or made.
        case cannotOpen
        /// The device failed.
        case inputOutput
        /// A statement that makes no sense, or breaks a constraint: a defect of the caller's.
        case misuse
        case other
    }

    public let kind: Kind
    /// SQLite's extended result code.
    public let code: Int32
    /// What was being done: SQL without values, or the name of an operation.
    public let operation: String
    /// SQLite's own words.
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
    /// A database whose file can't be made or moved.
    public init(failure: PrivateFile.Failure) {
        self.init(code: Self.cannotOpenCode, operation: "make or move \(failure.path)", reason: failure.description)
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
    /// For what a reader finds damaged that SQLite took for whole.
    public static let damagedCode = SQLITE_CORRUPT
    /// For an operation that is not possible with the file that is there.
    public static let misuseCode = SQLITE_MISUSE
    static let cannotOpenCode = SQLITE_CANTOPEN
}
