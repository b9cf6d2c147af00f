import Postgres

/// The partitions of a table that takes a mirror's place.
struct PartitionSwap {
    private let target: PostgresConnection
    private let table: MirrorTable

    init(of table: MirrorTable, _ target: PostgresConnection) {
        self.table = table
        self.target = target
    }

    /// Gives them the table's owner, who may attach others, and nobody else a right of their own: rights and policies are those of
    /// the table.
    func own() throws {
        guard table.definition.partitioning != nil else { return }
        let rows = try target.execute(
            """
            select format('%I.%I', schema.nspname, part.relname),
                format('alter table %I.%I owner to %I', schema.nspname, part.relname, pg_get_userbyid(parent.relowner)),
                part.relowner <> parent.relowner
            from pg_inherits
            join pg_class as part on part.oid = inhrelid
            join pg_class as parent on parent.oid = inhparent
            join pg_namespace as schema on schema.oid = part.relnamespace
            where inhparent = to_regclass($1)
            """, [.text(table.qualifiedName)])
        for row in 0..<rows.rowCount {
            if try rows.bool(row, 2) { try target.executeScript(try rows.string(row, 1)) }
            try PartitionMaker.close(try rows.string(row, 0), target)
        }
    }

    /// Names partitions, and the indexes that came with them, after the table once that has its name.
    func rename(to final: MirrorTable) throws {
        guard table.definition.partitioning != nil else { return }
        let rows = try target.execute(
            """
            select distinct part.relname, part.relkind = 'i'
            from pg_inherits
            join pg_class as owner on owner.oid = inhrelid
            left join pg_index on indrelid = owner.oid
            join pg_class as part on part.oid in (owner.oid, indexrelid)
            where inhparent = to_regclass($1) and starts_with(part.relname, $2)
            """, [.text(final.qualifiedName), .text(table.name + "_")])
        var statements: [PipelineStep] = []
        for row in 0..<rows.rowCount {
            let name = try rows.string(row, 0)
            let kind = try rows.bool(row, 1) ? "index" : "table"
            let wanted = MirrorTable.name([final.name, String(name.dropFirst(table.name.count + 1))])
            let free = try freeName(wanted)
            statements.append(
                .query("alter \(kind) \(table.qualified(name)) rename to \(quotedIdentifier(free))"))
        }
        _ = try target.pipeline(statements)
    }

    private func freeName(_ wanted: String) throws -> String {
        for number in 0... {
            let name = number == 0 ? wanted : MirrorTable.name([wanted, "\(number)"])
            let isTaken = try target.execute(
                "select to_regclass($1) is not null", [.text(table.qualified(name))]
            ).bool(0, 0)
            if !isTaken { return name }
        }
        return wanted
    }
}
