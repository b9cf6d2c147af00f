import Rules
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

/// Which of the records that a mirror's path finds it takes: an expression of the rules language. Pure; any thread.
///
/// `data` is the record, and the path's captures are variables (`$post_id`). Nothing else is known to it: a row must not
/// depend on the time or on what is elsewhere, as nobody would write it anew when that changes.
public struct RecordFilter: Sendable {
    /// The expression, as the definition has it.
    public let text: String
    /// Nil for a stored expression that does not compile any more.
    private let rules: RuleSet?
    private let pattern: PathPattern

    /// Ten times what a rule may take, as no client waits: about 250 MB of text gone over.
    private static let maxSteps = 1_000_000

    /// What is wrong with an expression, as a clause.
    struct Mistake: Error {
        let reason: String
    }

    /// - Throws: `Mistake` for what is no expression, or depends on more than the record and its keys.
    init(_ text: String, for pattern: PathPattern) throws(Mistake) {
        if let name = pattern.captures.first(where: { !RuleSet.isVariable($0) }) {
            throw Mistake(
                reason:
                    "a filter needs captures that it can name as variables: {\(name)} is not made of letters, digits and _, or begins with a digit"
            )
        }
        let rules: RuleSet
        do throws(RulesError) {
            rules = try RuleSet(.read, text, at: pattern, limits: RuleLimits(maxStepsPerRule: Self.maxSteps))
        } catch {
            // It is compiled as a rule that reads, of which its author knows nothing.
            let reason = error.problems.first?.message ?? "\(error)"
            throw Mistake(reason: reason.replacing("in .read expressions", with: "in filters"))
        }
        let names = rules.surroundings.map(\.rawValue).sorted()
        guard names.isEmpty else {
            throw Mistake(
                reason:
                    "names \(names.joined(separator: " and ")); a filter sees the record, as data, and its keys only")
        }
        self.rules = rules
        self.text = text
        self.pattern = pattern
    }

    /// A stored expression that does not compile any more. It admits no record; a mirror with it is not run.
    init(unusable text: String, for pattern: PathPattern) {
        rules = nil
        self.text = text
        self.pattern = pattern
    }

    /// Whether the record with these captured keys is one of the mirror's. An expression that fails, such as one that
    /// compares a text with a number, says no.
    func admits(_ record: Node, keys: [Key]) -> Bool {
        guard let rules else { return false }
        let path = pattern.path(of: keys)
        return rules.mayRead(
            path, query: QueryContext(nil), root: Node.null.replacing(path, with: record), auth: .unauthenticated,
            now: 0
        ).isAllowed
    }
}

extension RecordFilter: Equatable {
    /// The same expression; whether it is of the same path is the definitions' business.
    public static func == (first: RecordFilter, second: RecordFilter) -> Bool { first.text == second.text }
}

extension MirrorDefinition {
    /// The definition as JSON with everything said that was left out, but the target: as the database keeps it.
    public var json: [UInt8] { encoded(pretty: false) }

    /// The definition as a file for people.
    public func encoded(pretty: Bool) -> [UInt8] {
        var writer = JSONWriter(form: .plain, pretty: pretty)
        writer.beginObject()
        writer.writeKey("name", isFirst: true)
        writer.writeString(name)
        if let namespace { Self.member(&writer, "namespace", namespace) }
        Self.member(&writer, "path", pattern.description)
        if let filter { Self.member(&writer, "filter", filter.text) }
        Self.member(&writer, "table", tableName)
        if let comment { Self.member(&writer, "comment", comment) }
        writer.writeKey("keys", isFirst: false)
        writer.beginObject()
        for (index, key) in keys.enumerated() {
            writer.writeKey(key.name, isFirst: index == 0)
            guard let comment = key.comment else {
                writer.writeString(key.type.rawValue)
                continue
            }
            writer.beginObject()
            writer.writeKey("type", isFirst: true)
            writer.writeString(key.type.rawValue)
            Self.member(&writer, "comment", comment)
            writer.endObject()
        }
        writer.endObject()
        writer.writeKey("columns", isFirst: false)
        writer.beginObject()
        for (index, column) in columns.enumerated() {
            writer.writeKey(column.name, isFirst: index == 0)
            Self.write(column, &writer)
        }
        writer.endObject()
        writeRest(&writer)
        writeIndexes(&writer)
        switch keeps {
        case nil: break
        case .latest: Self.member(&writer, "deleted", "soft")
        case .changes: Self.member(&writer, "keeps", "changes")
        }
        if keptErrors != Self.defaultKeptErrors {
            writer.writeKey("keep errors", isFirst: false)
            writer.writeInteger(Int64(keptErrors))
        }
        writer.endObject()
        return writer.bytes
    }

    private static func member(_ writer: inout JSONWriter, _ key: String, _ value: String) {
        writer.writeKey(key, isFirst: false)
        writer.writeString(value)
    }

    private static func write(_ column: Column, _ writer: inout JSONWriter) {
        let path = column.path.isRoot ? "." : String(column.path.description.unicodeScalars.dropFirst())
        let isPlain = column.defaultValue.isNull && column.notNull == nil && column.comment == nil
        if isPlain, path == column.name { return writer.writeString(column.type.rawValue) }
        writer.beginObject()
        writer.writeKey("type", isFirst: true)
        writer.writeString(column.type.rawValue)
        if path != column.name { member(&writer, "path", path) }
        if !column.defaultValue.isNull {
            writer.writeKey("default", isFirst: false)
            writer.write(column.defaultValue)
        }
        if let notNull = column.notNull { member(&writer, "not null", notNull.rawValue) }
        if let comment = column.comment { member(&writer, "comment", comment) }
        writer.endObject()
    }

    private func writeRest(_ writer: inout JSONWriter) {
        guard let rest else { return }
        writer.writeKey("rest", isFirst: false)
        writer.beginObject()
        writer.writeKey("column", isFirst: true)
        writer.writeString(rest.name)
        if let comment = rest.comment { Self.member(&writer, "comment", comment) }
        writer.endObject()
    }

    private func writeIndexes(_ writer: inout JSONWriter) {
        guard !indexes.isEmpty else { return }
        writer.writeKey("indexes", isFirst: false)
        writer.beginArray()
        for (position, index) in indexes.enumerated() {
            if position > 0 { writer.raw(",") }
            writer.beginObject()
            writer.writeKey("columns", isFirst: true)
            writer.beginArray()
            for (place, column) in index.columns.enumerated() {
                if place > 0 { writer.raw(",") }
                writer.writeString(column)
            }
            writer.endArray()
            Self.member(&writer, "using", index.isGIN ? "gin" : "btree")
            writer.endObject()
        }
        writer.endArray()
    }
}

extension JSONWriter {
    mutating func beginArray() { raw("[") }
    mutating func endArray() { raw("]") }
}

/// Names of tables, views and indexes that are made of several parts.
enum RelationName {
    /// Joins parts by `_`; where that is too long for PostgreSQL, cuts it, with a hash that tells it from others.
    static func joined(_ parts: [String]) -> String {
        let name = parts.joined(separator: "_")
        guard name.utf8.count > MirrorDefinition.maxNameBytes else { return name }
        var short = ""
        for character in name where short.utf8.count + character.utf8.count <= MirrorDefinition.maxNameBytes - 17 {
            short.append(character)
        }
        return short + "_" + hash(name)
    }

    /// FNV-1a.
    static func hash(_ text: String) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return String(hash, radix: 16)
    }
}
