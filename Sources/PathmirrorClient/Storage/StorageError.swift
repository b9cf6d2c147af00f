internal import SQLite

/// Why there is no store.
package enum StorageError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another process, or another database object of this one, has the file. It is not shared, as each would send the
    /// other's pending writes.
    case inUse(file: String)
    /// A later version of the library wrote it.
    case laterVersion(file: String, reason: String)
    /// It can't be opened or made.
    case unavailable(file: String, reason: String)

    init(_ error: SQLiteError, file: String) {
        switch error.kind {
        case .inUse: self = .inUse(file: file)
        case .misuse: self = .laterVersion(file: file, reason: error.reason)
        default: self = .unavailable(file: file, reason: error.description)
        }
    }

    package var description: String {
        switch self {
        case .inUse(let file):
            "The database file \(file) is in use by another process; give each process a folder of its own, or end the "
                + "other one"
        case .laterVersion(let file, let reason):
            "The database file \(file) can't be read: \(reason). Use that version, or remove the file"
        case .unavailable(let file, let reason):
            "The database file \(file) can't be opened: \(reason). Check its folder's permissions and space"
        }
    }
}
