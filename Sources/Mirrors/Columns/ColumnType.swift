/// The types that a mirror's columns may have.
public enum ColumnType: String, Sendable, CaseIterable {
    case text
    case bigint
    case double = "double precision"
    case numeric
    case boolean
    case timestamp = "timestamptz"
    case date
    case jsonb
    case textArray = "text[]"
    case uuid

    /// The type in SQL.
    var sql: String { rawValue }

    static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}

/// The types that a captured key may be stored as.
public enum KeyType: String, Sendable, CaseIterable {
    case text, bigint, uuid, date

    static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}
