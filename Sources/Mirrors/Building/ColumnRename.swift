import LogStore
import Postgres
import Tree

/// A column whose name differs between two definitions, with the same value and type. It is renamed in place.
struct ColumnRename: Sendable, Equatable {
    let old: String
    let new: String

    /// Returns the columns renamed between two definitions: captures at the same position in the path, columns with the same
    /// value and type, and the rest column. Returns an empty array if a new name belonged to another column.
    static func between(_ old: MirrorDefinition, _ new: MirrorDefinition) -> [ColumnRename] {
        var found: [ColumnRename] = []
        let note = { (before: String, after: String) in
            if before != after { found.append(ColumnRename(old: before, new: after)) }
        }
        // A filter refers to captures by name.
        if old.pattern.hasSameShape(as: new.pattern), old.filter == new.filter {
            for (before, after) in zip(old.keys, new.keys) { note(before.name, after.name) }
        }
        var gone = old.columns.filter { column in !new.columns.contains { $0.name == column.name } }
        for column in new.columns where !old.columns.contains(where: { $0.name == column.name }) {
            guard let index = gone.firstIndex(where: { $0.isSameValue(as: column) }) else { continue }
            note(gone.remove(at: index).name, column.name)
        }
        if let before = old.rest, let after = new.rest { note(before.name, after.name) }
        // The former name of another column is not free while the table is altered.
        let taken = Set(old.keys.map(\.name) + old.columns.map(\.name) + (old.rest.map { [$0.name] } ?? []))
        return found.contains { taken.contains($0.new) } ? [] : found
    }

    /// Returns steps that rename columns of a mirror's table and of its recorded errors, in the open transaction. The errors
    /// move to the next generation, so that a session that writes with the old names finds that the mirror has moved.
    static func steps(_ renames: [ColumnRename], _ old: MirrorTable, _ table: MirrorGeneration) -> [PipelineStep] {
        guard !renames.isEmpty else { return [] }
        var steps: [PipelineStep] = []
        // The rows are updated first, because readers wait from the first renaming on.
        for rename in renames {
            let conversionErrors = quotedIdentifier(MirrorDefinition.conversionErrorsColumn)
            steps.append(
                .query(
                    "update \(old.qualifiedName) set \(conversionErrors) = array_replace(\(conversionErrors), $1, $2) where $1 = any(\(conversionErrors))",
                    [.text(rename.old), .text(rename.new)]))
        }
        steps += MirrorErrors.moveSteps(table, renaming: renames.map { ($0.old, $0.new) })
        for rename in renames {
            steps.append(
                .query(
                    "alter table \(old.qualifiedName) rename column \(quotedIdentifier(rename.old)) to \(quotedIdentifier(rename.new))"
                ))
        }
        let indexes = old.definition.indexes.map { $0.renamed(renames) }
        for (index, renamed) in zip(old.definition.indexes, indexes) {
            let from = old.indexName(index, of: old.name)
            let to = MirrorTable.indexName(renamed, among: indexes, of: old.name)
            guard from != to else { continue }
            steps.append(
                .query(
                    "alter index if exists \(quotedIdentifier(old.schema)).\(quotedIdentifier(from)) rename to \(quotedIdentifier(to))"
                ))
        }
        return steps
    }
}

extension MirrorDefinition {
    /// Returns this definition with its columns renamed as in `new`.
    func renamed(_ renames: [ColumnRename], as new: MirrorDefinition) -> MirrorDefinition {
        let name = { (name: String) in renames.first { $0.old == name }?.new ?? name }
        return MirrorDefinition(
            name: self.name, namespace: namespace,
            pattern: keys.contains { name($0.name) != $0.name } ? new.pattern : pattern, filter: filter,
            schema: schema, table: table, target: target, comment: comment,
            keys: keys.map { .init(name: name($0.name), type: $0.type, comment: $0.comment) },
            columns: columns.map {
                .init(
                    name: name($0.name), type: $0.type, path: $0.path, defaultValue: $0.defaultValue,
                    notNull: $0.notNull, comment: $0.comment)
            }, rest: rest.map { .init(name: name($0.name), comment: $0.comment) },
            indexes: indexes.map { $0.renamed(renames) }, keptErrors: keptErrors, keeps: keeps)
    }
}

extension MirrorDefinition.Index {
    fileprivate func renamed(_ renames: [ColumnRename]) -> MirrorDefinition.Index {
        .init(
            columns: columns.map { name in renames.first { $0.old == name }?.new ?? name }, isGIN: isGIN)
    }
}

extension MirrorDefinition.Column {
    fileprivate func isSameValue(as other: MirrorDefinition.Column) -> Bool {
        type == other.type && path == other.path && defaultValue == other.defaultValue && notNull == other.notNull
    }
}

extension PathPattern {
    /// Whether both paths are equal except for the captures' names.
    fileprivate func hasSameShape(as other: PathPattern) -> Bool {
        guard parts.count == other.parts.count else { return false }
        return zip(parts, other.parts).allSatisfy { first, second in
            switch (first, second) {
            case (.key(let one), .key(let two)): one == two
            case (.capture, .capture): true
            default: false
            }
        }
    }
}
