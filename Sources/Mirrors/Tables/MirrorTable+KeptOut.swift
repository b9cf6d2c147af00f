import Postgres

/// Finds out why the table did not take rows although the server reported no error.
extension MirrorTable {
    /// Counts the rows given to `upsert` that are there as they are given.
    var same: PostgresStatement {
        let conditions = columns.enumerated().map { index, column in
            let live = "live.\(quotedIdentifier(column.name))"
            return "\(live) \(column.isKey ? "=" : "is not distinct from") \(column.cast("given.c\(index)"))"
        }
        return PostgresStatement(
            "same \(label)",
            """
            select count(*) from \(Self.unnest(columns))
            join \(qualifiedName) as live on \(conditions.joined(separator: " and "))
            """, types: columns.map { $0.carrier.arrayType ?? .textArray })
    }

    /// A rule of the table that does something else in place of an INSERT or an UPDATE.
    func replacingRule(_ target: PostgresConnection) throws(PostgresError) -> String? {
        let rules = try target.execute(
            """
            select rulename::text from pg_rewrite
            where ev_class = to_regclass($1) and is_instead and ev_type in ('2', '3') and ev_enabled in ('O', 'A')
            order by 1 limit 1
            """, [.text(qualifiedName)])
        return rules.rowCount == 0 ? nil : try rules.string(0, 0)
    }
}
