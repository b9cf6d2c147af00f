import Rules
public import Tree

/// The definition of a mirror: its records, its table and its columns.
public struct MirrorDefinition: Sendable, Equatable {
    /// The policy for a record without a valid value for a column that must have one.
    public enum NotNull: String, Sendable, CaseIterable {
        /// The record gets no row.
        case skip
        /// The record gets no row, and an error is recorded.
        case error
        /// The column gets its default.
        case useDefault = "default"
    }

    /// The past values that the table keeps.
    public enum Keeps: Sendable {
        /// A row for each change of a record, with the row before and after it.
        case changes
        /// One row for each record. The row of a removed record stays with the last values.
        case latest
    }

    public struct KeyColumn: Sendable, Equatable {
        /// The name of the capture and of the column.
        public let name: String
        public let type: KeyType
        public let comment: String?
    }

    public struct Column: Sendable, Equatable {
        public let name: String
        public let type: ColumnType
        /// The value's path within the record. The root is the record itself.
        public let path: Path
        /// The value for records without one.
        public let defaultValue: Node
        public let notNull: NotNull?
        public let comment: String?
    }

    /// The column for values that no other column holds.
    public struct Rest: Sendable, Equatable {
        public let name: String
        public let comment: String?
    }

    public struct Index: Sendable, Equatable {
        public let columns: [String]
        public let isGIN: Bool
    }

    public let name: String
    /// The namespace, or nil for the namespace of the command.
    public internal(set) var namespace: String?
    public let pattern: PathPattern
    /// Selects records at the path. Nil selects all.
    public let filter: RecordFilter?
    public let schema: String
    public let table: String
    /// The URL of another database, or `env:NAME`. May contain a password.
    public let target: String?
    public let comment: String?
    public let keys: [KeyColumn]
    public let columns: [Column]
    public let rest: Rest?
    public let indexes: [Index]
    /// The maximum number of errors that are stored individually. Further errors are only counted.
    public let keptErrors: Int
    /// Nil for a table of the current state.
    public internal(set) var keeps: Keeps?
    /// The part of a stored definition that this version can't read: an expression that no longer compiles, or a member of a
    /// newer version. Such a mirror is broken: it can be listed, dropped and applied again, but not run.
    public internal(set) var mistake: String?

    /// The schema of tables whose definition names none.
    static let defaultSchema = "mirror"
    /// The default and the maximum of `keptErrors`. The maximum exists because storing errors requires counting the stored
    /// ones.
    public static let defaultKeptErrors = 10_000
    static let maxKeptErrors = 100_000

    /// The length of PostgreSQL's longest names, in bytes.
    static let maxNameBytes = 63
    /// PostgreSQL's limit is 1,600, which includes Pathmirror's own columns.
    static let maxColumns = 1_500

    /// Names that PostgreSQL reserves for system columns.
    static let systemColumns: Set<String> = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"]
    /// The columns that every table has.
    public static let seqColumn = "_seq"
    public static let updatedAtColumn = "_updated_at"
    public static let conversionErrorsColumn = "_misfits"
    static let deletedAtColumn = "_deleted_at"

    /// `schema.table`, for messages.
    public var tableName: String { "\(schema).\(table)" }

    /// Whether the table holds several rows of a record.
    public var isHistory: Bool { keeps == .changes }

    /// The member of a definition that gives the mirror a table apart from those of other namespaces, for messages.
    public func tableMember(of namespace: String) -> String {
        "\"table\": \"\(schema).\(namespace.replacing("-", with: "_"))_\(table)\""
    }

    /// The names of the tables and views of the mirror.
    var relations: Set<String> {
        isHistory ? [tableName, "\(schema).\(Self.versionsView(of: table))"] : [tableName]
    }

    /// Returns the name of the view of versions over a table of changes. A name too long for PostgreSQL is cut and gets a hash.
    static func versionsView(of table: String) -> String {
        let ending = "_changes"
        return RelationName.joined([table.hasSuffix(ending) ? String(table.dropLast(ending.count)) : table, "versions"])
    }

    /// The definition of this mirror's history.
    var history: MirrorDefinition {
        MirrorDefinition(
            name: "\(name)_changes", namespace: namespace, pattern: pattern, filter: filter, schema: schema,
            table: "\(table)_changes", target: target, comment: comment, keys: keys, columns: columns, rest: rest,
            indexes: [], keptErrors: keptErrors, keeps: .changes)
    }
}

/// An expression of the rules language that selects records at a mirror's path. Pure: any thread may use it.
///
/// `data` is the record, and the path's captures are variables (`$post_id`). The expression sees nothing else. A row must not
/// depend on the time or on other data, because no write would update it when these change.
public struct RecordFilter: Sendable {
    /// The expression, as in the definition.
    public let text: String
    /// Nil for a stored expression that no longer compiles.
    private let rules: RuleSet?
    private let pattern: PathPattern

    /// Ten times the limit of a rule, because no client waits. This is enough to scan about 250 MB of text.
    private static let maxSteps = 1_000_000

    /// The mistake in an expression, as a clause.
    struct Mistake: Error {
        let reason: String
    }

    /// - Throws: `Mistake` if the text is no expression, or depends on more than the record and its keys.
    init(_ text: String, for pattern: PathPattern) throws(Mistake) {
        if let name = pattern.captures.first(where: { !RuleSet.isVariable($0) }) {
            throw Mistake(
                reason:
                    "a filter needs captures that can be variables: {\(name)} has other characters than letters, digits and _, or begins with a digit"
            )
        }
        let rules: RuleSet
        do throws(RulesError) {
            rules = try RuleSet(.read, text, at: pattern, limits: RuleLimits(maxStepsPerRule: Self.maxSteps))
        } catch {
            // The expression is compiled as a `.read` rule, which the message must not mention.
            let reason = error.problems.first?.message ?? "\(error)"
            throw Mistake(reason: reason.replacing("in .read expressions", with: "in filters"))
        }
        let names = rules.surroundings.map(\.rawValue).sorted()
        guard names.isEmpty else {
            throw Mistake(
                reason:
                    "names \(names.joined(separator: " and ")); a filter sees only the record, as data, and its keys")
        }
        self.rules = rules
        self.text = text
        self.pattern = pattern
    }

    /// Creates the filter of a stored expression that no longer compiles. It admits no record, and its mirror is not run.
    init(unusable text: String, for pattern: PathPattern) {
        rules = nil
        self.text = text
        self.pattern = pattern
    }

    /// Whether the mirror contains the record with these captured keys. Returns false if the expression fails, for example
    /// because it compares a text with a number.
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
    /// Compares the expressions only. Paths are compared with the definitions.
    public static func == (first: RecordFilter, second: RecordFilter) -> Bool { first.text == second.text }
}

extension MirrorDefinition {
    /// The definition as the database stores it: as JSON with all defaults, without the target.
    public var json: [UInt8] { encoded(pretty: false) }

    /// Returns the definition as JSON, indented for readers if `pretty`.
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
            for (position, column) in index.columns.enumerated() {
                if position > 0 { writer.raw(",") }
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

/// Names of tables, views and indexes that consist of several parts.
enum RelationName {
    /// Joins parts by `_`. A name too long for PostgreSQL is cut and gets a hash that keeps it unique.
    static func joined(_ parts: [String]) -> String {
        let name = parts.joined(separator: "_")
        guard name.utf8.count > MirrorDefinition.maxNameBytes else { return name }
        var short = ""
        for character in name where short.utf8.count + character.utf8.count <= MirrorDefinition.maxNameBytes - 17 {
            short.append(character)
        }
        return short + "_" + hash(name)
    }

    /// Returns the FNV-1a hash in hexadecimal.
    static func hash(_ text: String) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return String(hash, radix: 16)
    }
}
