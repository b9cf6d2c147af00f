public import JSONText
import Postgres
import Tree

extension MirrorDefinition {
    /// The definitions in a file: one object, an array of them, or `{"mirrors": […]}`.
    ///
    /// - Parameter source: the file's name, for messages.
    /// - Throws: every mistake that was found.
    public static func read(_ bytes: [UInt8], source: String) throws(DefinitionError) -> [MirrorDefinition] {
        let root: SourceValue
        do {
            root = try SourceText.read(bytes)
        } catch {
            throw DefinitionError(
                source: source, problems: [.init(place: error.place, part: "", reason: error.reason)])
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
                if let problem = HistoryNames.problem(value.place, definition, history, among: found) {
                    problems.append(problem)
                }
                found.append((definition, false))
                if let history { found.append((history, true)) }
            }
            problems += reader.problems
        }
        if problems.isEmpty, found.isEmpty {
            problems.append(.init(place: root.place, part: "", reason: "there is no mirror in this file"))
        }
        guard problems.isEmpty else { throw DefinitionError(source: source, problems: problems) }
        return found.map(\.definition)
    }
}

extension MirrorDefinition {
    /// A definition as it is stored. What can't be read of it is left out, and `mistake` names it: one definition must not keep
    /// others from being read.
    ///
    /// - Throws: what is wrong with a text that has no name, or is no JSON object.
    init(stored json: [UInt8]) throws(DefinitionError) {
        let source = "pathmirror.mirror"
        let value: SourceValue
        do {
            value = try SourceText.read(json)
        } catch {
            throw DefinitionError(source: source, problems: [.init(place: error.place, part: "", reason: error.reason)])
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

/// Makes a definition out of a JSON value and notes every mistake on the way.
struct DefinitionReader: DefinitionNoting {
    var problems: [DefinitionError.Problem] = []
    /// Whether a definition with mistakes is made, too.
    var isStored = false
    /// Whether a history is to stand beside the mirror.
    private(set) var hasHistory = false
    /// Columns that have a mistake of their own: who names them makes none.
    var mistakenColumns: Set<String> = []
    private static let members = [
        "name", "namespace", "path", "filter", "table", "target", "comment", "keys", "columns", "rest", "indexes",
        "keep errors", "history", "keeps", "deleted",
    ]

    mutating func definition(_ value: SourceValue) -> MirrorDefinition? {
        guard let members = object(value, "", allowed: Self.members) else { return nil }
        let name = members["name"].flatMap { text($0, "name") }
        if name == nil, members["name"] == nil { note(value.place, "name", "is missing: a mirror needs a name") }
        if let name, let place = members["name"]?.place { check(name: name, place) }
        let pattern = pattern(members["path"], value.place)
        let filter = filter(members["filter"], pattern)
        let (schema, table) = tableName(members["table"], name)
        let columns = columns(members["columns"], value.place)
        let keys = keys(members["keys"], pattern, members["path"]?.place ?? value.place)
        let rest = rest(members["rest"])
        let keeps = keeps(members["keeps"], members["deleted"])
        checkNames(keys, columns, rest, members["columns"]?.place ?? value.place)
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

    private mutating func check(name: String, _ place: SourcePlace) {
        let isPlain = name.unicodeScalars.allSatisfy { scalar in
            switch scalar {
            case "0"..."9", "a"..."z", "A"..."Z", "_", "-": true
            default: false
            }
        }
        if name.isEmpty || !isPlain || name.utf8.count > MirrorDefinition.maxNameBytes {
            note(place, "name", "a mirror's name has 1 to 63 letters, digits, _ and -")
        }
    }

    private mutating func pattern(_ value: SourceValue?, _ place: SourcePlace) -> PathPattern? {
        guard let value else {
            note(place, "path", "is missing: it says which records are mirrored, such as /posts/{post_id}")
            return nil
        }
        guard let text = text(value, "path") else { return nil }
        do {
            let pattern = try PathPattern(text)
            if !pattern.captures.isEmpty { return pattern }
            note(
                value.place, "path",
                "the path pattern captures no key; a mirror needs one at least, such as /posts/{post_id}")
        } catch {
            note(value.place, "path", error.reason)
        }
        return nil
    }

    private mutating func filter(_ value: SourceValue?, _ pattern: PathPattern?) -> RecordFilter? {
        guard let pattern, let value, let text = text(value, "filter") else { return nil }
        do throws(RecordFilter.Mistake) {
            return try RecordFilter(text, for: pattern)
        } catch {
            note(value.place, "filter", error.reason)
            return isStored ? RecordFilter(unusable: text, for: pattern) : nil
        }
    }

    private mutating func tableName(_ value: SourceValue?, _ name: String?) -> (String, String) {
        guard let value else { return ("mirror", name ?? "") }
        guard let text = text(value, "table") else { return ("", "") }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count <= 2, parts.allSatisfy({ !$0.isEmpty }) else {
            note(value.place, "table", "\"\(text)\" is neither a table nor schema.table")
            return ("", "")
        }
        let schema = parts.count == 2 ? parts[0] : "mirror"
        let table = parts[parts.count - 1]
        if schema == "pathmirror" || schema.hasPrefix("pg_") || schema == "information_schema" {
            note(value.place, "table", "the schema \(schema) is the system's; choose another, such as mirror")
        }
        checkIdentifier(schema, value.place, "table")
        checkIdentifier(table, value.place, "table")
        return (schema, table)
    }

    private mutating func target(_ value: SourceValue) -> String? {
        guard let text = text(value, "target") else { return nil }
        if text.hasPrefix("env:") {
            if text.dropFirst(4).isEmpty {
                note(value.place, "target", "env: needs the name of an environment variable")
            }
            return text
        }
        do {
            _ = try PostgresURL(text)
        } catch {
            note(value.place, "target", error.message)
        }
        return text
    }

    private mutating func keptErrors(_ value: SourceValue?) -> Int {
        guard let value else { return MirrorDefinition.defaultKeptErrors }
        if case .number(let text) = value.kind, let number = Int(text), 0...MirrorDefinition.maxKeptErrors ~= number {
            return number
        }
        note(value.place, "keep errors", "this should be a whole number up to \(MirrorDefinition.maxKeptErrors)")
        return 0
    }

    mutating func checkIdentifier(_ name: String, _ place: SourcePlace, _ part: String) {
        if name.isEmpty { note(place, part, "a name is empty") }
        if name.unicodeScalars.contains("\0") { note(place, part, "a name can't hold U+0000") }
        if name.utf8.count > MirrorDefinition.maxNameBytes {
            note(place, part, "\"\(name)\" has \(name.utf8.count) bytes; PostgreSQL's names end at 63")
        }
    }

    /// No two columns with one name, none with a name of ours.
    private mutating func checkNames(
        _ keys: [MirrorDefinition.KeyColumn], _ columns: [MirrorDefinition.Column], _ rest: MirrorDefinition.Rest?,
        _ place: SourcePlace
    ) {
        var seen: Set<String> = []
        for name in keys.map(\.name) + columns.map(\.name) + (rest.map { [$0.name] } ?? []) {
            checkIdentifier(name, place, "columns")
            if name.hasPrefix("_") { note(place, "columns.\(name)", "names that begin with _ are Pathmirror's own") }
            if MirrorDefinition.systemColumns.contains(name) {
                note(place, "columns.\(name)", "every table of PostgreSQL has a column of this name")
            }
            if !seen.insert(name).inserted { note(place, "columns.\(name)", "there are two columns with this name") }
        }
        if seen.count > MirrorDefinition.maxColumns {
            note(place, "columns", "a table can't have more than \(MirrorDefinition.maxColumns) columns")
        }
    }

    // MARK: Values

    mutating func text(_ value: SourceValue, _ part: String) -> String? {
        guard case .string(let text) = value.kind else {
            note(value.place, part, "this should be a string, but is \(value.kindName)")
            return nil
        }
        if text.unicodeScalars.contains("\0") {
            note(value.place, part, "PostgreSQL can't hold U+0000")
            return nil
        }
        return text
    }
}
