import Postgres

/// Copies rows of Pathmirror's own tables from a namespace in one database to a namespace in another one, with COPY.
struct TableRowCopier {
    let source: PostgresConnection
    let target: PostgresConnection
    let sourceID: Int64
    let targetID: Int64
    /// Called at intervals with the number of rows copied since the last call.
    let onRows: (Int) -> Void

    /// The number of rows between two calls of `onRows`.
    private static let rowsBetweenNews = 5_000

    /// Copies the rows of a table that match `condition`. The condition must contain only numbers and fixed names,
    /// because COPY takes no parameters.
    ///
    /// - Parameters:
    ///   - replaced: expressions for columns with other values in the target.
    ///   - relation: the source of the rows, if not the whole table.
    /// - Returns: the number of rows.
    func copy(
        _ table: String, _ condition: String, _ replaced: [String: String] = [:], rows relation: String? = nil
    ) throws -> Int {
        var names: [String] = []
        let rows = try source.execute(
            """
            select attname::text from pg_attribute where attrelid = ('pathmirror.' || $1)::regclass and attnum > 0
                and not attisdropped and attname <> 'namespace_id' and attgenerated = '' order by attnum
            """, [.text(table)])
        for row in 0..<rows.rowCount { names.append(try rows.string(row, 0)) }
        let chosen = names.map { replaced[$0] ?? "n.\"\($0)\"" }.joined(separator: ", ")
        let list = names.map { "\"\($0)\"" }.joined(separator: ", ")
        var total = 0
        var count = 0
        defer { onRows(count) }
        _ = try target.copyIn("copy pathmirror.\(table) (namespace_id, \(list)) from stdin") { writer in
            try source.copyOut(
                """
                copy (select \(targetID)::bigint, \(chosen) from \(relation ?? "pathmirror.\(table)") as n
                where n.namespace_id = \(sourceID) and \(condition)) to stdout
                """
            ) { row throws in
                try writer.appendRow(row)
                total += 1
                count += 1
                guard count == Self.rowsBetweenNews else { return }
                onRows(count)
                count = 0
            }
        }
        return total
    }
}
