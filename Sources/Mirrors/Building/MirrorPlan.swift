import LogStore
import Postgres
import Tree

/// The changes that applying a definition would make.
public struct MirrorPlan: Sendable {
    public enum Action: Sendable, Equatable {
        /// A new table is filled from the tree.
        case create
        /// Comments, indexes or names of columns change in place. The statements are for comments and indexes.
        case alter([String])
        /// A new table is built beside the old one and replaces it.
        case rebuild
        case unchanged
    }

    public let definition: MirrorDefinition
    public let namespace: String
    public let namespaceID: Int64
    public let action: Action
    /// The differences, as clauses.
    public let reasons: [String]
    /// The columns that are renamed in place, before anything else is done.
    let renames: [ColumnRename]
    /// The present mirror, or nil for a new one.
    public let existing: CatalogMirror?
    /// The definition of the present table, or nil if there is no table.
    let obeyed: MirrorDefinition?
    /// Sentences about user-defined objects on the table that a new table would lack.
    var losses: [String] = []

    public var actionName: String {
        switch action {
        case .create: "create"
        case .alter: "alter"
        case .rebuild: "rebuild"
        case .unchanged: "unchanged"
        }
    }
}

extension MirrorPlan {
    /// Compares a definition with the present mirrors and tables.
    ///
    /// - Throws: `refused` if the definition can't be applied, for example because it names another mirror's table or moves the
    ///   mirror to another database.
    static func make(
        _ definition: MirrorDefinition, namespace: (id: Int64, name: String), mirrors: [CatalogMirror],
        target: PostgresConnection
    ) throws -> MirrorPlan {
        var plan = try compare(definition, namespace: namespace, mirrors: mirrors, target: target)
        if plan.action == .rebuild, let obeyed = plan.obeyed {
            plan.losses = try losses(of: obeyed, to: definition, plan.renames, target)
        }
        return plan
    }

    private static func compare(
        _ definition: MirrorDefinition, namespace: (id: Int64, name: String), mirrors: [CatalogMirror],
        target: PostgresConnection
    ) throws -> MirrorPlan {
        let existing = mirrors.first { $0.namespaceID == namespace.id && $0.name == definition.name }
        let rival = mirrors.first { mirror in
            mirror.definition.tableName == definition.tableName && mirror.target == definition.target
                && !(mirror.namespaceID == namespace.id && mirror.name == definition.name)
        }
        if let rival { throw taken(definition, in: namespace.name, by: rival) }
        let cursor = try existing.flatMap { try MirrorCursor.of($0, target) }
        let plan = { (action: Action, reasons: [String], renames: [ColumnRename]) in
            MirrorPlan(
                definition: definition, namespace: namespace.name, namespaceID: namespace.id, action: action,
                reasons: reasons, renames: renames, existing: existing, obeyed: cursor?.definition)
        }
        if let existing, existing.target != definition.target {
            throw MirrorError.refused(
                "Mirror \"\(definition.name)\" can't move to another database: drop it, then apply the definition.")
        }
        let table = MirrorTable(definition, name: definition.table, label: "")
        try target.executeScript(SchemaMaking.usageSQL(definition.schema))
        let isThere = try target.execute(
            "select to_regclass($1) is not null", [.text(table.qualifiedName)]
        ).bool(0, 0)
        guard let cursor else {
            guard !isThere else { throw occupied(definition) }
            try checkNames(table, replacing: nil, target)
            return plan(.create, existing == nil ? [] : ["an earlier attempt was interrupted"], [])
        }
        try checkHistory(cursor.definition, definition)
        // A history's rows contain names of columns, too, so its table is rebuilt.
        let renames =
            !definition.isHistory && cursor.definition.keeps == definition.keeps
            ? ColumnRename.between(cursor.definition, definition) : []
        let old = cursor.definition.renamed(renames, as: definition)
        if old.tableName != definition.tableName, isThere { throw occupied(definition) }
        let reasons = renames.map { "\($0.old) is now \($0.new)" } + differences(old, definition)
        if !isThere, old.tableName == definition.tableName {
            return plan(.rebuild, reasons + ["the table is missing"], [])
        }
        // Other differences are unknown.
        if cursor.definition.mistake != nil {
            return plan(.rebuild, reasons + ["the former definition can't be used"], [])
        }
        let former = MirrorTable(cursor.definition, name: cursor.definition.table, label: "")
        if definition.isHistory, old.tableName == definition.tableName, try !former.hasVersionsView(target) {
            try checkNames(table, replacing: cursor.definition, target)
            return plan(.rebuild, reasons + ["the view of versions is missing"], [])
        }
        if reasons.isEmpty { return plan(.unchanged, [], []) }
        try checkNames(table, replacing: cursor.definition, target)
        guard old.rows == definition.rows else {
            return plan(.rebuild, reasons, renames)
        }
        return plan(.alter(alterations(old, table)), reasons, renames)
    }

    /// Refuses changes to a mirror with a history that would require unknown values of the past.
    private static func checkHistory(_ old: MirrorDefinition, _ new: MirrorDefinition) throws {
        let again = "to start again, run 'pathmirror mirror drop \(new.name)' and apply the definition."
        if old.isHistory || new.isHistory, old.keeps != new.keeps {
            let kind = { (definition: MirrorDefinition) in
                definition.isHistory ? "a history" : "a mirror of the current records"
            }
            throw MirrorError.refused(
                "Mirror \"\(new.name)\" can't change from \(kind(old)) to \(kind(new)): \(again)")
        }
        guard old.keeps != nil, new.keeps != nil else { return }
        if old.pattern != new.pattern {
            throw MirrorError.refused(
                "The path of \"\(new.name)\" can't change (\(old.pattern) → \(new.pattern)), because earlier records at the new path are unknown: \(again)"
            )
        }
        if old.keys.map(\.type) != new.keys.map(\.type) {
            throw MirrorError.refused(
                "The types of the keys of \"\(new.name)\" can't change, because records with other keys were not stored: \(again)"
            )
        }
    }

    /// Names another table: the default one is the same in all namespaces.
    private static func taken(
        _ definition: MirrorDefinition, in namespace: String, by rival: CatalogMirror
    ) -> MirrorError {
        .refused(
            "\(definition.tableName) is the table of mirror \"\(rival.name)\" of namespace \"\(rival.namespace)\". Give mirror \"\(definition.name)\" of namespace \"\(namespace)\" another one in its definition, such as \(definition.tableMember(of: namespace))."
        )
    }

    private static func occupied(_ definition: MirrorDefinition) -> MirrorError {
        .refused("\(definition.tableName) exists and belongs to no mirror: rename that table, or choose another name.")
    }

    /// Checks, before a table is built, that it can replace the former one.
    ///
    /// - Parameter old: the definition of the former table, or nil if there is none.
    /// - Throws: ``MirrorError/refused(_:)``, with the obstacle and the steps that an operator can take.
    static func checkTableName(
        of definition: MirrorDefinition, replacing old: MirrorDefinition?, _ target: PostgresConnection
    ) throws {
        if let old {
            try TableReaders.refuseMaterializedViews(of: old, target)
            try TableReaders.refuseWhatNamesTheTable(of: old, becoming: definition, target)
        }
        try checkNames(MirrorTable(definition, name: definition.table, label: ""), replacing: old, target)
    }

    /// Throws if an object that is not the mirror's own has the name of its key, its view or one of its indexes.
    private static func checkNames(
        _ table: MirrorTable, replacing old: MirrorDefinition?, _ target: PostgresConnection
    ) throws {
        var own: Set<String> = []
        if let old, old.schema == table.schema {
            let oldTable = MirrorTable(old, name: old.table, label: "")
            own = oldTable.relationNames
            if try !oldTable.hasVersionsView(target) { own.remove(MirrorDefinition.versionsView(of: old.table)) }
        }
        for name in table.relationNames.subtracting(own).sorted() {
            let qualified = "\(quotedIdentifier(table.schema)).\(quotedIdentifier(name))"
            let isTaken = try target.execute("select to_regclass($1) is not null", [.text(qualified)]).bool(0, 0)
            guard isTaken else { continue }
            throw MirrorError.refused(
                "\(qualified) exists, and the mirror \"\(table.definition.name)\" needs that name for its key, an index or a view: rename it (alter index … rename to …), or drop it."
            )
        }
    }

    /// Returns the statements that change comments and indexes.
    private static func alterations(_ old: MirrorDefinition, _ table: MirrorTable) -> [String] {
        let new = table.definition
        var statements: [String] = []
        for index in old.indexes where !new.indexes.contains(index) {
            let name = quotedIdentifier(MirrorTable.indexName(index, among: old.indexes, of: table.name))
            statements.append("drop index if exists \(quotedIdentifier(table.schema)).\(name)")
        }
        // Adding or removing an index can change the name of a similar one.
        for index in new.indexes where old.indexes.contains(index) {
            let before = MirrorTable.indexName(index, among: old.indexes, of: table.name)
            let after = table.indexName(index, of: table.name)
            guard before != after else { continue }
            statements.append(
                "alter index if exists \(quotedIdentifier(table.schema)).\(quotedIdentifier(before)) rename to \(quotedIdentifier(after))"
            )
        }
        for index in new.indexes where !old.indexes.contains(index) { statements.append(table.createSQL(index)) }
        return statements + table.commentSQL
    }

    /// Returns the differences between two definitions, as clauses.
    static func differences(_ old: MirrorDefinition, _ new: MirrorDefinition) -> [String] {
        var found: [String] = []
        if old.keeps != new.keeps {
            found.append(new.keeps == nil ? "rows of removed records are deleted" : "rows of removed records stay")
        }
        if old.pattern != new.pattern { found.append("the path: \(old.pattern) → \(new.pattern)") }
        if old.filter != new.filter { found.append("the filter") }
        if old.tableName != new.tableName { found.append("the table: \(old.tableName) → \(new.tableName)") }
        for key in new.keys {
            guard let before = old.keys.first(where: { $0.name == key.name }) else { continue }
            if before.type != key.type {
                found.append("the type of \(key.name): \(before.type.rawValue) → \(key.type.rawValue)")
            }
        }
        for column in new.columns {
            guard let before = old.columns.first(where: { $0.name == column.name }) else {
                found.append("the new column \(column.name)")
                continue
            }
            if before.type != column.type {
                found.append("the type of \(column.name): \(before.type.rawValue) → \(column.type.rawValue)")
            }
            if before.path != column.path { found.append("the path of \(column.name)") }
            if before.defaultValue != column.defaultValue { found.append("the default of \(column.name)") }
            if before.notNull != column.notNull { found.append("\"not null\" of \(column.name)") }
        }
        for column in old.columns where !new.columns.contains(where: { $0.name == column.name }) {
            found.append("\(column.name) is removed")
        }
        if old.rest?.name != new.rest?.name { found.append("the column \"rest\"") }
        if found.isEmpty, old.rows != new.rows { found.append("the order of the columns") }
        if old.indexes != new.indexes { found.append("the indexes") }
        if old.keptErrors != new.keptErrors { found.append("the number of kept errors") }
        if old.comments != new.comments { found.append("the comments") }
        return found
    }
}

extension MirrorDefinition {
    /// The definition without the parts that can change in place.
    fileprivate var rows: MirrorDefinition {
        MirrorDefinition(
            name: name, namespace: nil, pattern: pattern, filter: filter, schema: schema, table: table, target: nil,
            comment: nil,
            keys: keys.map { .init(name: $0.name, type: $0.type, comment: nil) },
            columns: columns.map {
                .init(
                    name: $0.name, type: $0.type, path: $0.path, defaultValue: $0.defaultValue, notNull: $0.notNull,
                    comment: nil)
            }, rest: rest.map { .init(name: $0.name, comment: nil) },
            indexes: [], keptErrors: 0, keeps: keeps)
    }

    /// The comments by column name. The key "" is the table.
    fileprivate var comments: [String: String] {
        let all = [("", comment)] + keys.map { ($0.name, $0.comment) } + columns.map { ($0.name, $0.comment) }
        let rest = rest.map { [($0.name, $0.comment)] } ?? []
        return Dictionary((all + rest).compactMap { name, text in text.map { (name, $0) } }) { first, _ in first }
    }
}

extension MirrorPlan {
    /// Sentences about the tables and columns that executing the plan would create, change and drop. Empty if the plan changes
    /// nothing.
    public var consequences: [String] {
        let table = definition.tableName
        switch action {
        case .unchanged: return []
        case .create: return ["\(table) would be created and filled from \(source)."]
        case .alter:
            return ["\(table) would be changed in place; its rows stay."]
        case .rebuild:
            guard let obeyed else { return ["\(table) would be rebuilt."] }
            var sentences = ["\(table) would be rebuilt, and \(retired(obeyed)) dropped afterwards."]
            let dropped = dropped(from: obeyed)
            if !dropped.isEmpty {
                let word = dropped.count == 1 ? "column" : "columns"
                sentences.append("The new table would not have the \(word) \(dropped.joined(separator: ", ")).")
            }
            return sentences + losses
        }
    }

    private var source: String {
        switch definition.keeps {
        case nil: "the tree"
        case .latest: "the log, which names removed records as far back as it reaches"
        case .changes: "the log, as far back as it reaches"
        }
    }

    private func retired(_ obeyed: MirrorDefinition) -> String {
        obeyed.tableName == definition.tableName ? "the present table" : obeyed.tableName
    }

    /// Returns the columns of the table that its successor would not have under any name.
    private func dropped(from obeyed: MirrorDefinition) -> [String] {
        let renamed = Set(renames.map(\.old))
        let kept = Set(definition.columns.map(\.name) + definition.keys.map(\.name) + [definition.rest?.name ?? ""])
        let before = obeyed.columns.map(\.name) + (obeyed.rest.map { [$0.name] } ?? [])
        return before.filter { !renamed.contains($0) && !kept.contains($0) }
    }
}
