import LogStore
import Postgres

/// A table with unique indexes as SQL: writing rows of which some may not be there beside others, and finding those that may.
struct UniqueStatements {
    private let table: MirrorTable
    private let indexes: [MirrorDefinition.Index]

    /// Nil for a table without unique indexes.
    init?(_ table: MirrorTable) {
        indexes = table.definition.uniqueIndexes
        guard !indexes.isEmpty else { return nil }
        self.table = table
    }

    private var parameterTypes: [PostgresType] { table.columns.map { $0.carrier.arrayType ?? .textArray } }
    private var mirrorTypes: [PostgresType] { [.int8, .uuid, .int8] }
    private var names: String { MirrorTable.list(table.columns.map(\.name)) }

    /// The values of rows as the table's columns have them, under their names.
    private var given: String {
        let values = table.columns.enumerated().map { index, column in
            "\(column.cast("given.c\(index)")) as \(quotedIdentifier(column.name))"
        }
        return "select \(values.joined(separator: ", ")) from \(MirrorTable.unnest(table.columns))"
    }

    /// A row's record by its keys, joined by `/`.
    private func key(_ row: String) -> String {
        table.columns.filter(\.isKey).map { "\(row).\(quotedIdentifier($0.name))::text" }.joined(
            separator: " || '/' || ")
    }

    private func hash(_ slot: Int, _ row: String) -> String {
        let columns = indexes[slot].columns.map { "\(row).\(quotedIdentifier($0))" }
        let isThere = columns.map { "\($0) is not null" }.joined(separator: " and ")
        return "case when \(isThere) then hash_record_extended(row(\(columns.joined(separator: ", "))), \(slot)) end"
    }

    /// A query for the first of the unique indexes in which another row has the values of `row`.
    private func blocker(_ row: String) -> String {
        let slots = indexes.indices.map { slot in
            let equal = indexes[slot].columns.map { name in
                "live.\(quotedIdentifier(name)) = \(row).\(quotedIdentifier(name))"
            }
            return """
                select \(slot) as slot, \(hash(slot, row)) as hash
                where exists (select from \(table.qualifiedName) as live where \(equal.joined(separator: " and ")))
                """
        }
        return "select slot, hash from (\(slots.joined(separator: " union all "))) as found order by slot limit 1"
    }

    private func isMirror(_ alias: String, from first: Int) -> String {
        "\(alias).namespace_id = $\(first) and \(alias).mirror = $\(first + 1) and \(alias).generation = $\(first + 2)"
    }

    private var made: String { "jsonb_populate_record(null::\(table.qualifiedName), waiting.made) as made" }

    // MARK: Writing

    /// Inserts rows of records that have none, as many as may be there beside each other; answers with the keys of these.
    var insert: PostgresStatement {
        PostgresStatement(
            "unique insert \(table.label)",
            """
            insert into \(table.qualifiedName) as live (\(names)) \(given)
            on conflict do nothing returning \(key("live"))
            """, types: parameterTypes)
    }

    /// Lets records wait, by the rows that could not be inserted, with the mirror's three parameters behind them; answers with
    /// their keys and the indexes. Those that no unique index of the definition keeps out are left out.
    var file: PostgresStatement {
        let first = table.columns.count + 1
        return PostgresStatement(
            "unique file \(table.label)",
            """
            insert into \(MirrorWaiting.waitingTable) (namespace_id, mirror, generation, key, slot, hash, made)
            select $\(first), $\(first + 1), $\(first + 2), \(key("given")), blocker.slot, blocker.hash, to_jsonb(given)
            from (\(given)) as given, lateral (\(blocker("given"))) as blocker
            returning key, slot::bigint
            """, types: parameterTypes + mirrorTypes)
    }

    /// Notes the values that rows have for which others wait: the rows that begin with some captured keys, which come behind the
    /// mirror's three parameters.
    func free(keyCount: Int) -> PostgresStatement {
        let keys = Array(table.columns.prefix(keyCount))
        let arrays = keys.indices.map { "$\($0 + 4)" }.joined(separator: ", ")
        let carried = keys.indices.map { "c\($0)" }.joined(separator: ", ")
        let match = keys.enumerated().map { index, key in
            "live.\(quotedIdentifier(key.name)) = \(key.cast("given.c\(index)"))"
        }
        let join =
            keys.isEmpty
            ? "" : "join unnest(\(arrays)) as given (\(carried)) on \(match.joined(separator: " and "))"
        let values = indexes.indices.map { "(\($0), \(hash($0, "live")))" }.joined(separator: ", ")
        return PostgresStatement(
            "unique free\(keyCount) \(table.label)",
            """
            insert into \(MirrorWaiting.freedTable) (namespace_id, mirror, generation, slot, hash)
            select distinct $1, $2, $3, held.slot, held.hash
            from \(table.qualifiedName) as live \(join), lateral (values \(values)) as held (slot, hash)
            where held.hash is not null and exists (
                select from \(MirrorWaiting.waitingTable) as waiting
                where \(isMirror("waiting", from: 1)) and waiting.slot = held.slot and waiting.hash = held.hash)
            on conflict do nothing
            """, types: mirrorTypes + keys.map { $0.carrier.arrayType ?? .textArray })
    }

    // MARK: Settling

    /// Inserts the rows of records that wait, by their keys, as many as may be there; answers with the keys of these.
    var settle: PostgresStatement {
        let values = table.columns.map { "made.\(quotedIdentifier($0.name))" }.joined(separator: ", ")
        return PostgresStatement(
            "unique settle \(table.label)",
            """
            insert into \(table.qualifiedName) as live (\(names))
            select \(values) from \(MirrorWaiting.waitingTable) as waiting, \(made)
            where \(isMirror("waiting", from: 1)) and waiting.key = any($4) order by waiting.key
            on conflict do nothing returning \(key("live"))
            """, types: mirrorTypes + [.textArray])
    }

    /// Lets records, by their keys, wait for what keeps them out now; answers with key, index, hash and the entry that made the
    /// row. Those that no unique index of the definition keeps out are not among them.
    var refile: PostgresStatement {
        PostgresStatement(
            "unique refile \(table.label)",
            """
            update \(MirrorWaiting.waitingTable) as old set slot = found.slot, hash = found.hash
            from (
                select waiting.key, blocker.slot, blocker.hash
                from \(MirrorWaiting.waitingTable) as waiting, \(made), lateral (\(blocker("made"))) as blocker
                where \(isMirror("waiting", from: 1)) and waiting.key = any($4)
            ) as found
            where \(isMirror("old", from: 1)) and old.key = found.key
            returning old.key, old.slot::bigint, old.hash, (old.made ->> '\(MirrorDefinition.seqColumn)')::bigint
            """, types: mirrorTypes + [.textArray])
    }

    // MARK: Verifying

    /// Of some records, by their keys, the ones that wait, each with whether that is right: another row has the values, or that
    /// one did is noted.
    var waiting: PostgresStatement {
        PostgresStatement(
            "unique waiting \(table.label)",
            """
            select waiting.key, exists (\(blocker("made"))) or exists (
                select from \(MirrorWaiting.freedTable) as freed
                where \(isMirror("freed", from: 1)) and freed.slot = waiting.slot and freed.hash = waiting.hash)
            from \(MirrorWaiting.waitingTable) as waiting, \(made)
            where \(isMirror("waiting", from: 1)) and waiting.key = any($4)
            """, types: mirrorTypes + [.textArray])
    }

    /// Why a record has no row.
    func reason(_ slot: Int) -> String {
        guard indexes.indices.contains(slot) else { return Self.foreignReason }
        let names = indexes[slot].columns.map { "\"\($0)\"" }.joined(separator: ", ")
        return "another row has the same \(names), of which a unique index allows one"
    }

    /// Why a record has no row that no index of the definition keeps out.
    static let foreignReason =
        "the table refuses the row: another one has the same values in a unique index that the definition does not have"
}
