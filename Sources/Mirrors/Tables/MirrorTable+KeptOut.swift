import Postgres
import Tree

/// Finds out why the table did not take rows, or did not let them go.
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

    /// The captured keys of the rows that begin with some of them.
    func keys(below beginning: [Key], _ target: PostgresConnection) throws(PostgresError) -> [[Key]] {
        let keys = columns.filter(\.isKey)
        let texts = zip(keys, definition.keys).map { column, key in
            let name = "live.\(quotedIdentifier(column.name))"
            // As text a day depends on how the server or the role writes days.
            return key.type == .date ? "to_char(\(name), 'YYYY-MM-DD')" : "\(name)::text"
        }
        let given = Array(keys.prefix(beginning.count))
        var sql = "select \(texts.joined(separator: ", ")) from \(qualifiedName) as live"
        if !given.isEmpty {
            let match = given.enumerated().map { "live.\(quotedIdentifier($1.name)) = \($1.cast("given.c\($0)"))" }
            sql += " join \(Self.unnest(given)) on \(match.joined(separator: " and "))"
        }
        let statement = PostgresStatement(
            "keys\(given.count) \(label)", sql, types: given.map { $0.carrier.arrayType ?? .textArray })
        let rows = try target.executePrepared(statement, RowEncoder.keys(self, [beginning]))
        var found: [[Key]] = []
        for row in 0..<rows.rowCount {
            var one: [Key] = []
            for column in keys.indices { one.append(Key(try rows.string(row, column))) }
            found.append(one)
        }
        return found
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
