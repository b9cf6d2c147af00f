import LogStore
import Postgres

/// The user-defined indexes on a mirror's table, which are not part of its definition. The table that replaces it gets them,
/// too.
struct UserDefinedIndexes {
    private struct Index {
        let name: String
        let isUnique: Bool
        /// The part of the index's definition after the table's name, or nil if a constraint needs the index.
        let tail: String?
        /// The index's name until the new table has replaced the old one.
        let temporaryName: String

        /// Returns the error with the index's final name in place of the temporary one.
        func named(_ error: PostgresError) -> PostgresError {
            var named = error
            named.message = nameToBe.naming(error.message)
            named.detail = error.detail.map(nameToBe.naming)
            named.statement = error.statement.map(nameToBe.naming)
            if error.constraint == temporaryName { named.constraint = name }
            return named
        }

        var lostWithConstraint: String {
            "The index \(name) belongs to a constraint, which the new table does not get."
        }

        var nameToBe: IndexRename { IndexRename(built: temporaryName, name: name) }
    }

    private var indexes: [Index] = []
    /// The indexes that were found at first.
    private var first: [Index] = []
    /// Sentences about objects that the new table can't have.
    private(set) var lost: [String] = []

    /// Reads the user-defined indexes on the table of a definition. Finds none if there is no such table.
    ///
    /// - Parameter shadow: the name of the table that will replace this one.
    init(of old: MirrorDefinition?, shadow: String, _ target: PostgresConnection) throws {
        guard let old else { return }
        let table = MirrorTable(old, name: old.table, label: "")
        let ours = Set(table.indexNames(of: table.name))
        let rows = try target.execute(
            """
            select name, is_unique,
                case
                    when is_constraint then null
                    when starts_with(rest, format('%I.%I ', schema, owner)) then substr(rest, length(format('%I.%I ', schema, owner)) + 1)
                    when starts_with(rest, format('%I ', owner)) then substr(rest, length(format('%I ', owner)) + 1)
                end
            from (
                select class.relname as name, index.indisunique as is_unique, schema.nspname as schema, owner.relname as owner,
                    exists (select from pg_constraint where conindid = index.indexrelid) as is_constraint,
                    -- Earlier versions made partitioned tables, whose indexes are ON ONLY them.
                    regexp_replace(
                        substr(
                            pg_get_indexdef(index.indexrelid),
                            length(format('CREATE %sINDEX %I ON ', case when index.indisunique then 'UNIQUE ' end, class.relname)) + 1
                        ), case when owner.relkind = 'p' then '^ONLY ' else '^$' end, ''
                    ) as rest
                from pg_index as index
                join pg_class as class on class.oid = index.indexrelid
                join pg_class as owner on owner.oid = index.indrelid
                join pg_namespace as schema on schema.oid = owner.relnamespace
                where index.indrelid = to_regclass($1) and not index.indisprimary and index.indisvalid
            ) as found
            order by name
            """, [.text(table.qualifiedName)])
        for row in 0..<rows.rowCount {
            let name = try rows.string(row, 0)
            guard !ours.contains(name) else { continue }
            indexes.append(
                Index(
                    name: name, isUnique: try rows.bool(row, 1),
                    tail: rows.isNull(row, 2) ? nil : try rows.string(row, 2),
                    temporaryName: "\(shadow)_k\(row)"))
        }
        first = indexes
    }

    /// The temporary and the final names of the indexes.
    var namesToBe: [IndexRename] { first.map(\.nameToBe) }

    /// Creates the indexes on the new table. An index that the table can't have, because a column is missing or has another
    /// type, is left out and noted in `lost`.
    ///
    /// - Throws: also if an index can't hold a row's value.
    mutating func make(on table: MirrorTable, _ target: PostgresConnection) throws(PostgresError) {
        let taken = Set(table.indexNames(of: table.definition.table))
        let wanted = indexes
        indexes = []
        lost = []
        for index in wanted where !taken.contains(index.name) {
            guard let tail = index.tail else {
                lost.append(index.lostWithConstraint)
                continue
            }
            // The savepoint preserves earlier work of the open transaction.
            let savepoint = target.isInTransaction
            do {
                if savepoint { try target.executeScript("savepoint user_index") }
                try target.executeScript(
                    "create \(index.isUnique ? "unique " : "")index \(quotedIdentifier(index.temporaryName)) on \(table.qualifiedName) \(tail)"
                )
                if savepoint { try target.executeScript("release savepoint user_index") }
                indexes.append(index)
            } catch {
                if savepoint, target.isOpen { try target.executeScript("rollback to savepoint user_index") }
                guard error.isAboutDefinition else {
                    indexes = wanted
                    throw index.named(error)
                }
                lost.append("The index \(index.name) can't be created on the new table: \(error.message).")
            }
        }
    }

    /// Replaces the losses noted before by those that a swap has found.
    mutating func note(lost: [String]) { self.lost = lost }

    /// Gives the indexes their final names, in the transaction in which the new table replaces the old one. If a name is taken
    /// in `schema`, the index gets a number after its name, which is noted.
    mutating func rename(in schema: String, _ target: PostgresConnection) throws {
        for index in indexes {
            let prefix = "\(quotedIdentifier(schema))."
            var name = index.name
            for number in 1... {
                let isTaken = try target.execute(
                    "select to_regclass($1) is not null", [.text(prefix + quotedIdentifier(name))]
                ).bool(0, 0)
                guard isTaken else { break }
                name = RelationName.joined([index.name, "\(number)"])
            }
            if name != index.name {
                lost.append("The index \(index.name) is named \(name) on the new table, because its name is taken.")
            }
            try target.executeScript(
                "alter index \(prefix)\(quotedIdentifier(index.temporaryName)) rename to \(quotedIdentifier(name))")
        }
    }

    /// Returns sentences about objects on a definition's table that no other table would get.
    static func losses(of old: MirrorDefinition, _ target: PostgresConnection) throws -> [String] {
        let found = try UserDefinedIndexes(of: old, shadow: "", target)
        return try found.indexes.filter { $0.tail == nil }.map(\.lostWithConstraint) + found.othersLost(of: old, target)
    }

    /// Notes indexes that were created on the old table since, and its other objects that will be lost. No session can add more
    /// until the open transaction ends.
    mutating func noteLatecomers(on old: MirrorDefinition, _ target: PostgresConnection) throws {
        let known = Set(first.map(\.name))
        for index in try UserDefinedIndexes(of: old, shadow: "", target).first where !known.contains(index.name) {
            lost.append(
                "The index \(index.name) was created during the rebuild and is not on the new table: create it again.")
        }
        lost += try othersLost(of: old, target)
    }

    /// Returns sentences about objects that are lost: invalid indexes, constraints, triggers, columns that the mirror does not
    /// define, and others that belong to one table.
    private func othersLost(of old: MirrorDefinition, _ target: PostgresConnection) throws -> [String] {
        var lost: [String] = []
        let table = MirrorTable(old, name: old.table, label: "")
        let invalid = try target.execute(
            """
            select relname from pg_index join pg_class on pg_class.oid = indexrelid
            where indrelid = to_regclass($1) and not indisvalid order by 1
            """, [.text(table.qualifiedName)])
        for row in 0..<invalid.rowCount {
            lost.append(
                "The index \(try invalid.string(row, 0)) is not valid (its creation did not finish): the new table does not get it."
            )
        }
        let rows = try target.execute(
            "select conname from pg_constraint where conrelid = to_regclass($1) and contype in ('c', 'f') order by 1",
            [.text(table.qualifiedName)])
        for row in 0..<rows.rowCount {
            lost.append("The constraint \(try rows.string(row, 0)) is not on the new table.")
        }
        var own = PostgresArray(of: .text)
        for column in table.columns { own.appendText(column.name) }
        let others = try target.execute(
            """
            select 'column', attname from pg_attribute
            where attrelid = to_regclass($1) and attnum > 0 and not attisdropped and attname <> all($2)
            union all
            select 'trigger', tgname from pg_trigger where tgrelid = to_regclass($1) and not tgisinternal
            union all
            select 'statistics object', format('%I.%I', nspname, stxname) from pg_statistic_ext
            join pg_namespace on pg_namespace.oid = stxnamespace where stxrelid = to_regclass($1)
            union all
            select 'rule', rulename from pg_rewrite where ev_class = to_regclass($1)
            union all
            select 'replica identity', '(' || case relreplident when 'f' then 'full' when 'n' then 'nothing' else 'an index' end || ')'
            from pg_class where oid = to_regclass($1) and relreplident <> 'd'
            order by 1 desc, 2
            """, [.text(table.qualifiedName), .array(own)])
        for row in 0..<others.rowCount {
            lost.append("The \(try others.string(row, 0)) \(try others.string(row, 1)) is not on the new table.")
        }
        lost += try TableReaders.parents(of: old, target).map { "The new table does not inherit from \($0)." }
        let publications = try target.execute(
            "select pubname from pg_publication_rel join pg_publication on pg_publication.oid = prpubid where prrelid = to_regclass($1) order by 1",
            [.text(table.qualifiedName)])
        for row in 0..<publications.rowCount {
            lost.append("The new table is not in the publication \(try publications.string(row, 0)).")
        }
        return lost
    }
}

extension PostgresError {
    /// Whether the server rejected a statement because of its names, types, rights or unsupported features.
    fileprivate var isAboutDefinition: Bool {
        guard case .server(let state) = kind else { return false }
        return state.hasPrefix("42") || state.hasPrefix("0A")
    }
}
