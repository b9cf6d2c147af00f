public import Tree

/// What a mirror is to be: which records, in which table, with which columns.
public struct MirrorDefinition: Sendable, Equatable {
    /// What becomes of a record that has no fitting value for a column that must have one.
    public enum NotNull: String, Sendable, CaseIterable {
        /// The record makes no row.
        case skip
        /// The record makes no row, and is recorded as an error.
        case error
        /// The column's default stands in.
        case useDefault = "default"
    }

    /// What the table keeps of what its records were.
    public enum Keeps: Sendable {
        /// A row for each change of a record, with the row before and after it.
        case changes
        /// One row for each record, which stays with the last values when the record goes.
        case latest
    }

    public struct KeyColumn: Sendable, Equatable {
        /// The capture's name, which is the column's.
        public let name: String
        public let type: KeyType
        public let comment: String?
    }

    public struct Column: Sendable, Equatable {
        public let name: String
        public let type: ColumnType
        /// The value's place in the record; the root is the record itself.
        public let path: Path
        /// What stands for an absent value.
        public let defaultValue: Node
        public let notNull: NotNull?
        public let comment: String?
    }

    /// The column that takes what no other column does.
    public struct Rest: Sendable, Equatable {
        public let name: String
        public let comment: String?
    }

    public struct Index: Sendable, Equatable {
        public let columns: [String]
        public let isGIN: Bool
    }

    public let name: String
    /// Nil for the one that the command names.
    public let namespace: String?
    public let pattern: PathPattern
    /// Which of the records there it takes; nil for all of them.
    public let filter: RecordFilter?
    public let schema: String
    public let table: String
    /// Another database: its URL, or `env:NAME`. May hold a password.
    public let target: String?
    public let comment: String?
    public let keys: [KeyColumn]
    public let columns: [Column]
    public let rest: Rest?
    public let indexes: [Index]
    /// How many values that don't fit are recorded one by one; more are counted only.
    public let keptErrors: Int
    /// Nil for a table of what is there now.
    public internal(set) var keeps: Keeps?
    /// What this version can't read in a stored definition: an expression that does not compile any more, or a member of a
    /// newer version. Such a mirror is broken: it can be listed, dropped and applied again, but not run.
    public internal(set) var mistake: String?

    /// What `keptErrors` is, and the most that it may be: whoever stores errors counts those that there are.
    public static let defaultKeptErrors = 10_000
    static let maxKeptErrors = 100_000

    /// The longest name of PostgreSQL, in bytes.
    static let maxNameBytes = 63
    /// PostgreSQL ends at 1,600, some of which are ours.
    static let maxColumns = 1_500

    /// Names that PostgreSQL lets no column have.
    static let systemColumns: Set<String> = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"]
    /// The columns that every table has.
    public static let seqColumn = "_seq"
    public static let updatedAtColumn = "_updated_at"
    public static let misfitsColumn = "_misfits"
    static let deletedAtColumn = "_deleted_at"

    /// `schema.table`, for messages.
    public var tableName: String { "\(schema).\(table)" }

    /// Whether the table holds several rows of a record.
    public var isHistory: Bool { keeps == .changes }

    /// The names that tables and views of the mirror have.
    var relations: Set<String> {
        isHistory ? [tableName, "\(schema).\(Self.versionsView(of: table))"] : [tableName]
    }

    /// What the view of versions over a table of changes is called; cut, with a hash, where that is too long for PostgreSQL.
    static func versionsView(of table: String) -> String {
        let ending = "_changes"
        return RelationName.joined([table.hasSuffix(ending) ? String(table.dropLast(ending.count)) : table, "versions"])
    }

    /// The definition of the history that stands beside this mirror.
    var history: MirrorDefinition {
        MirrorDefinition(
            name: "\(name)_changes", namespace: namespace, pattern: pattern, filter: filter, schema: schema,
            table: "\(table)_changes", target: target, comment: comment, keys: keys, columns: columns, rest: rest,
            indexes: [], keptErrors: keptErrors, keeps: .changes)
    }
}
