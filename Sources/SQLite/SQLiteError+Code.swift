internal import CSQLite

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
