import Postgres

/// The partitions of a table that takes a mirror's place.
struct PartitionSwap {
    private let target: PostgresConnection
    private let table: MirrorTable

    init(of table: MirrorTable, _ target: PostgresConnection) {
        self.table = table
        self.target = target
    }

    /// Gives them to the table's owner, who may attach others, and nobody else a right of their own: rights and policies are those of
    /// the table.
    func own() throws {
        guard table.definition.partitioning != nil else { return }
        let rows = try target.execute(
            """
            select format('%I.%I', schema.nspname, part.relname)
            from pg_inherits
            join pg_class as part on part.oid = inhrelid
            join pg_namespace as schema on schema.oid = part.relnamespace
            where inhparent = to_regclass($1)
            """, [.text(table.qualifiedName)])
        for row in 0..<rows.rowCount {
            try PartitionMaker.close(try rows.string(row, 0), of: table.qualifiedName, target)
        }
    }

    /// Names partitions after the table once that has its name, and the indexes that came with them after the table's, once these
    /// have theirs.
    func rename(to final: MirrorTable) throws {
        guard table.definition.partitioning != nil else { return }
        let rows = try target.execute(
            """
            select part.relname from pg_inherits join pg_class as part on part.oid = inhrelid
            where inhparent = to_regclass($1) and starts_with(part.relname, $2) order by 1
            """, [.text(final.qualifiedName), .text(table.name + "_")])
        for row in 0..<rows.rowCount {
            let name = try rows.string(row, 0)
            try rename("table", name, to: final.partitionName(String(name.dropFirst(table.name.count + 1))))
        }
        try renameIndexes(of: final)
    }

    /// PostgreSQL has named them after their partitions, and cut the names where they were too long.
    private func renameIndexes(of final: MirrorTable) throws {
        let rows = try target.execute(
            """
            select own.relname, part.relname, above.relname
            from pg_inherits as of_table
            join pg_class as part on part.oid = of_table.inhrelid
            join pg_index on indrelid = part.oid
            join pg_class as own on own.oid = indexrelid
            join pg_inherits as of_index on of_index.inhrelid = own.oid
            join pg_class as above on above.oid = of_index.inhparent
            where of_table.inhparent = to_regclass($1) and starts_with(own.relname, $2)
            order by 1
            """, [.text(final.qualifiedName), .text(Leftovers.prefix)])
        for row in 0..<rows.rowCount {
            let above = try rows.string(row, 2)
            let rest = above.hasPrefix(final.name + "_") ? String(above.dropFirst(final.name.count + 1)) : above
            try rename("index", try rows.string(row, 0), to: MirrorTable.name([try rows.string(row, 1), rest]))
        }
    }

    private func rename(_ kind: String, _ name: String, to first: String) throws {
        var wanted = first
        var number = 1
        while try isTaken(wanted) {
            wanted = MirrorTable.name([first, "\(number)"])
            number += 1
        }
        try target.executeScript("alter \(kind) \(table.qualified(name)) rename to \(quotedIdentifier(wanted))")
    }

    private func isTaken(_ name: String) throws -> Bool {
        try target.execute("select to_regclass($1) is not null", [.text(table.qualified(name))]).bool(0, 0)
    }
}
