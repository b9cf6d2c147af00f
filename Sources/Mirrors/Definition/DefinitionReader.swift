public import JSONText
import Postgres
import Tree

extension MirrorDefinition {
    /// Reads the definitions in a file: one object, an array of them, or `{"mirrors": […]}`.
    ///
    /// - Parameter source: the file's name, for messages.
    /// - Throws: all mistakes that were found.
    public static func read(_ bytes: [UInt8], source: String) throws(DefinitionError) -> [MirrorDefinition] {
        let root: SourceValue
        do {
            root = try SourceText.read(bytes)
        } catch {
            throw DefinitionError(
                source: source, problems: [.init(position: error.position, part: "", reason: error.reason)])
        }
        var values: [SourceValue] = [root]
        if case .array(let elements) = root.kind { values = elements }
        if case .object(let members) = root.kind, members.count == 1, members[0].key == "mirrors",
            case .array(let elements) = members[0].value.kind
        {
            values = elements
        }
        var problems: [DefinitionError.Problem] = []
        var found: [(definition: MirrorDefinition, isHistory: Bool)] = []
        for value in values {
            var reader = DefinitionReader()
            if let definition = reader.definition(value) {
                let history = reader.hasHistory ? definition.history : nil
                if let problem = HistoryNames.problem(value.position, definition, history, among: found) {
                    problems.append(problem)
                }
                found.append((definition, false))
                if let history { found.append((history, true)) }
            }
            problems += reader.problems
        }
        if problems.isEmpty, found.isEmpty {
            problems.append(.init(position: root.position, part: "", reason: "there is no mirror in this file"))
        }
        guard problems.isEmpty else { throw DefinitionError(source: source, problems: problems) }
        return found.map(\.definition)
    }
}

extension MirrorDefinition {
    /// Reads a stored definition. Parts that can't be read are left out and named in `mistake`, so that one definition does not
    /// keep others from being read.
    ///
    /// - Throws: if the text is not a JSON object or has no name.
    init(stored json: [UInt8]) throws(DefinitionError) {
        let source = "pathmirror.mirror"
        let value: SourceValue
        do {
            value = try SourceText.read(json)
        } catch {
            throw DefinitionError(
                source: source, problems: [.init(position: error.position, part: "", reason: error.reason)])
        }
        var reader = DefinitionReader(isStored: true)
        guard var definition = reader.definition(value) else {
            throw DefinitionError(source: source, problems: reader.problems)
        }
        if !reader.problems.isEmpty {
            definition.mistake = reader.problems.map { "\($0.part): \($0.reason)" }.joined(separator: "; ")
        }
        self = definition
    }
}

/// Creates a definition from a JSON value and notes every mistake.
struct DefinitionReader: DefinitionNoting {
    var problems: [DefinitionError.Problem] = []
    /// Whether to create a definition in spite of mistakes.
    var isStored = false
    /// Whether the mirror gets a history beside it.
    private(set) var hasHistory = false
    /// Columns whose own definition has a mistake. Naming such a column elsewhere is not reported as a mistake.
    var mistakenColumns: Set<String> = []
    private static let members = [
        "name", "namespace", "path", "filter", "table", "target", "comment", "keys", "columns", "rest", "indexes",
        "keep errors", "history", "keeps", "deleted",
    ]

    mutating func definition(_ value: SourceValue) -> MirrorDefinition? {
        guard let members = object(value, "", allowed: Self.members) else { return nil }
        let name = members["name"].flatMap { text($0, "name") }
        if name == nil, members["name"] == nil { note(value.position, "name", "is missing: a mirror needs a name") }
        if let name, let position = members["name"]?.position { check(name: name, position) }
        let pattern = pattern(members["path"], value.position)
        let filter = filter(members["filter"], pattern)
        let (schema, table) = tableName(members["table"], name)
        let columns = columns(members["columns"], value.position)
        let keys = keys(members["keys"], pattern, members["path"]?.position ?? value.position)
        let rest = rest(members["rest"])
        let keeps = keeps(members["keeps"], members["deleted"])
        checkNames(keys, columns, rest, members["columns"]?.position ?? value.position)
        hasHistory = hasHistory(members["history"], keeps, name, table)
        let indexes = indexes(members["indexes"], keys, columns, rest, keeps)
        let keptErrors = keptErrors(members["keep errors"])
        let target = members["target"].flatMap { self.target($0) }
        let namespace = members["namespace"].flatMap { text($0, "namespace") }
        let comment = members["comment"].flatMap { text($0, "comment") }
        guard problems.isEmpty || isStored, let name else { return nil }
        guard let pattern = pattern ?? (isStored ? try? PathPattern("/{key}") : nil) else { return nil }
        return MirrorDefinition(
            name: name, namespace: namespace, pattern: pattern, filter: filter, schema: schema, table: table,
            target: target, comment: comment, keys: keys, columns: columns, rest: rest, indexes: indexes,
            keptErrors: keptErrors, keeps: keeps)
    }

    // MARK: Parts

    private mutating func check(name: String, _ position: SourcePosition) {
        let isPlain = name.unicodeScalars.allSatisfy { scalar in
            switch scalar {
            case "0"..."9", "a"..."z", "A"..."Z", "_", "-": true
            default: false
            }
        }
        if name.isEmpty || !isPlain || name.utf8.count > MirrorDefinition.maxNameBytes {
            note(position, "name", "a mirror's name has 1 to 63 letters, digits, _ and -")
        }
    }

    private mutating func pattern(_ value: SourceValue?, _ position: SourcePosition) -> PathPattern? {
        guard let value else {
            note(position, "path", "is missing: name the records to mirror, such as /posts/{post_id}")
            return nil
        }
        guard let text = text(value, "path") else { return nil }
        do {
            let pattern = try PathPattern(text)
            if !pattern.captures.isEmpty { return pattern }
            note(
                value.position, "path",
                "the path pattern captures no key; a mirror needs at least one, such as /posts/{post_id}")
        } catch {
            note(value.position, "path", error.reason)
        }
        return nil
    }

    private mutating func filter(_ value: SourceValue?, _ pattern: PathPattern?) -> RecordFilter? {
        guard let pattern, let value, let text = text(value, "filter") else { return nil }
        do throws(RecordFilter.Mistake) {
            return try RecordFilter(text, for: pattern)
        } catch {
            note(value.position, "filter", error.reason)
            return isStored ? RecordFilter(unusable: text, for: pattern) : nil
        }
    }

    private mutating func tableName(_ value: SourceValue?, _ name: String?) -> (String, String) {
        guard let value else { return (MirrorDefinition.defaultSchema, name ?? "") }
        guard let text = text(value, "table") else { return ("", "") }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count <= 2, parts.allSatisfy({ !$0.isEmpty }) else {
            note(value.position, "table", "\"\(text)\" is neither a table nor schema.table")
            return ("", "")
        }
        let schema = parts.count == 2 ? parts[0] : MirrorDefinition.defaultSchema
        let table = parts[parts.count - 1]
        if schema == "pathmirror" || schema.hasPrefix("pg_") || schema == "information_schema" {
            note(value.position, "table", "the schema \(schema) is reserved; choose another schema, such as mirror")
        }
        checkIdentifier(schema, value.position, "table")
        checkIdentifier(table, value.position, "table")
        return (schema, table)
    }

    private mutating func target(_ value: SourceValue) -> String? {
        guard let text = text(value, "target") else { return nil }
        if text.hasPrefix("env:") {
            if text.dropFirst(4).isEmpty {
                note(value.position, "target", "env: needs the name of an environment variable")
            }
            return text
        }
        do {
            _ = try PostgresURL(text)
        } catch {
            note(value.position, "target", error.message)
        }
        return text
    }

    private mutating func keptErrors(_ value: SourceValue?) -> Int {
        guard let value else { return MirrorDefinition.defaultKeptErrors }
        if case .number(let text) = value.kind, let number = Int(text), 0...MirrorDefinition.maxKeptErrors ~= number {
            return number
        }
        note(value.position, "keep errors", "this should be a whole number up to \(MirrorDefinition.maxKeptErrors)")
        return 0
    }

    mutating func checkIdentifier(_ name: String, _ position: SourcePosition, _ part: String) {
        if name.isEmpty { note(position, part, "a name is empty") }
        if name.unicodeScalars.contains("\0") { note(position, part, "a name can't contain U+0000") }
        if name.utf8.count > MirrorDefinition.maxNameBytes {
            note(position, part, "\"\(name)\" has \(name.utf8.count) bytes; a name in PostgreSQL has at most 63")
        }
    }

    /// Checks that the names of columns are unique and not reserved.
    private mutating func checkNames(
        _ keys: [MirrorDefinition.KeyColumn], _ columns: [MirrorDefinition.Column], _ rest: MirrorDefinition.Rest?,
        _ position: SourcePosition
    ) {
        var seen: Set<String> = []
        for name in keys.map(\.name) + columns.map(\.name) + (rest.map { [$0.name] } ?? []) {
            checkIdentifier(name, position, "columns")
            if name.hasPrefix("_") {
                note(position, "columns.\(name)", "names that begin with _ are reserved for Pathmirror")
            }
            if MirrorDefinition.systemColumns.contains(name) {
                note(position, "columns.\(name)", "every table of PostgreSQL has a column of this name")
            }
            if !seen.insert(name).inserted { note(position, "columns.\(name)", "there are two columns with this name") }
        }
        if seen.count > MirrorDefinition.maxColumns {
            note(position, "columns", "a table can't have more than \(MirrorDefinition.maxColumns) columns")
        }
    }

    // MARK: Values

    mutating func text(_ value: SourceValue, _ part: String) -> String? {
        guard case .string(let text) = value.kind else {
            note(value.position, part, "this should be a string, but is \(value.kindName)")
            return nil
        }
        if text.unicodeScalars.contains("\0") {
            note(value.position, part, "PostgreSQL can't store U+0000")
            return nil
        }
        return text
    }
}

extension DefinitionReader {
    /// Reads whether the mirror's own table keeps past values: `"keeps": "changes"`, or `"deleted": "soft"`.
    mutating func keeps(_ keeps: SourceValue?, _ deleted: SourceValue?) -> MirrorDefinition.Keeps? {
        if let deleted {
            guard let text = text(deleted, "deleted") else { return nil }
            if text != "soft" {
                note(deleted.position, "deleted", "this should be \"soft\", which keeps the rows of removed records")
            }
            if keeps != nil {
                note(deleted.position, "deleted", "a history has its own rows for removed records: leave this out")
            }
            return .latest
        }
        guard let keeps, let text = text(keeps, "keeps") else { return nil }
        if text != "changes" {
            note(keeps.position, "keeps", "this should be \"changes\", which makes the mirror a history")
        }
        return .changes
    }

    /// Reads whether the mirror gets a history beside it: `"history": true`.
    mutating func hasHistory(
        _ value: SourceValue?, _ keeps: MirrorDefinition.Keeps?, _ name: String?, _ table: String
    ) -> Bool {
        guard let value else { return false }
        guard case .bool(let isWanted) = value.kind else {
            note(value.position, "history", "this should be true or false, but is \(value.kindName)")
            return false
        }
        guard isWanted else { return false }
        checkIdentifier("\(table)_changes", value.position, "history")
        if let name, "\(name)_changes".utf8.count > MirrorDefinition.maxNameBytes {
            note(value.position, "history", "the name \(name)_changes is longer than 63 bytes")
        }
        if keeps == .changes { note(value.position, "history", "\"keeps\" already makes this mirror a history") }
        return true
    }
}

/// Checks that the histories of a file's mirrors have names, tables and views of their own.
enum HistoryNames {
    /// Returns the first conflict, or nil if there is none.
    ///
    /// - Parameters:
    ///   - position: the position of the mirror in the file.
    ///   - others: the preceding mirrors of the file, and their histories.
    static func problem(
        _ position: SourcePosition, _ mirror: MirrorDefinition, _ history: MirrorDefinition?,
        among others: [(definition: MirrorDefinition, isHistory: Bool)]
    ) -> DefinitionError.Problem? {
        for other in others {
            guard let history, let what = shared(history, other.definition) else { continue }
            return .init(
                position: position, part: "history",
                reason: "the history \"\(history.name)\" has the \(what) of another mirror in this file")
        }
        for other in others where other.isHistory {
            guard let what = shared(mirror, other.definition) else { continue }
            return .init(
                position: position, part: "name",
                reason: "\"\(mirror.name)\" has the \(what) of a history in this file, \"\(other.definition.name)\"")
        }
        return nil
    }

    private static func shared(_ one: MirrorDefinition, _ other: MirrorDefinition) -> String? {
        if one.namespace == other.namespace, one.name == other.name { return "name" }
        if one.target == other.target, !one.relations.isDisjoint(with: other.relations) { return "table" }
        return nil
    }
}

extension DefinitionReader {
    mutating func indexes(
        _ value: SourceValue?, _ keys: [MirrorDefinition.KeyColumn], _ columns: [MirrorDefinition.Column],
        _ rest: MirrorDefinition.Rest?, _ keeps: MirrorDefinition.Keeps?
    ) -> [MirrorDefinition.Index] {
        guard let value else { return [] }
        guard case .array(let elements) = value.kind else {
            note(value.position, "indexes", "this should be an array of indexes, but is \(value.kindName)")
            return []
        }
        // A table of changes contains the columns only within `_old` and `_new`.
        let isInside = keeps == .changes
        let own = isInside ? [] : columns.map(\.name) + (rest.map { [$0.name] } ?? [])
        let names = mistakenColumns.union(keys.map(\.name) + own + MirrorDefinition.ownColumnsForIndexes(keeps))
        let many = columns.filter { $0.type == .jsonb || $0.type == .textArray }.map(\.name)
        let manyValued = isInside ? ["_old", "_new"] : Set(many + (rest.map { [$0.name] } ?? []))
        var found: [MirrorDefinition.Index] = []
        for (number, element) in elements.enumerated() {
            let part = "indexes[\(number)]"
            guard let index = self.index(element, part, names: names, manyValued: manyValued) else { continue }
            if found.contains(index) { note(element.position, part, "this index is listed twice") }
            found.append(index)
        }
        return found
    }

    private mutating func index(
        _ value: SourceValue, _ part: String, names: Set<String>, manyValued: Set<String>
    ) -> MirrorDefinition.Index? {
        var list = value
        var method: String?
        if case .object = value.kind {
            guard let members = object(value, part, allowed: ["columns", "using"]) else { return nil }
            guard let columns = members["columns"] else {
                note(value.position, part, "the columns are missing")
                return nil
            }
            list = columns
            method = members["using"].flatMap { text($0, "\(part).using") }
            if let method, !["btree", "gin"].contains(method), let position = members["using"]?.position {
                note(position, "\(part).using", "there is no method \"\(method)\"; methods are btree, gin")
            }
        }
        var columns: [String] = []
        switch list.kind {
        case .string(let name): columns = [name]
        case .array(let elements): columns = elements.compactMap { text($0, part) }
        default:
            note(list.position, part, "this should be a column's name or an array of them, but is \(list.kindName)")
        }
        for name in columns where !names.contains(name) { note(list.position, part, "there is no column \"\(name)\"") }
        guard !columns.isEmpty else {
            if case .array = list.kind { note(list.position, part, "the index has no columns") }
            return nil
        }
        let isGIN = method.map { $0 == "gin" } ?? columns.contains { manyValued.contains($0) }
        if isGIN, !columns.allSatisfy({ manyValued.contains($0) }) {
            note(list.position, part, "a gin index accepts only columns of jsonb and arrays")
        }
        return .init(columns: columns, isGIN: isGIN)
    }
}

extension MirrorDefinition {
    /// Returns Pathmirror's own columns that indexes may contain.
    fileprivate static func ownColumnsForIndexes(_ keeps: Keeps?) -> [String] {
        switch keeps {
        case nil: [seqColumn, updatedAtColumn]
        case .latest: [seqColumn, updatedAtColumn, deletedAtColumn]
        case .changes: [seqColumn, "_at", "_operation", "_uid", "_old", "_new"]
        }
    }
}
