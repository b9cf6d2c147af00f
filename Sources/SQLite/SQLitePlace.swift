/// Where a database of SQLite is kept.
public enum SQLitePlace: Sendable, Equatable {
    case memory
    case file(String)
}
