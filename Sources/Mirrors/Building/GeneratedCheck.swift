import LogStore
import Postgres

/// Tries the generated columns of a definition on an empty table, which nobody sees, so that what is wrong with one is found
/// before anything is built.
struct GeneratedCheck {
    private let definition: MirrorDefinition

    init(_ definition: MirrorDefinition) { self.definition = definition }

    /// Runs it in a transaction of its own, of which nothing stays.
    ///
    /// - Throws: `MirrorError.refused` for what PostgreSQL refuses, with its words.
    func run(_ target: PostgresConnection) throws {
        guard !definition.generated.isEmpty else { return }
        // Where the mirror's own table comes: it takes no right that making that one doesn't take.
        let name = MirrorTable.name(["_check", definition.table])
        let table = MirrorTable(definition, name: name, label: "check \(definition.name)")
        try target.executeScript("begin")
        defer { try? target.executeScript("rollback") }
        for sql in table.createSQL { try target.executeScript(sql) }
        for column in definition.generated { try check(column, table, target) }
        let names = try target.execute(
            "select attname from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum",
            [.text(table.qualifiedName)])
        let found = try (0..<names.rowCount).map { try names.string($0, 0) }
        guard found == table.readColumns.map(\.name) else {
            throw MirrorError.refused(
                "An expression of a generated column of mirror \"\(definition.name)\" is more than an expression: its parentheses don't match."
            )
        }
    }

    private func check(
        _ column: MirrorDefinition.GeneratedColumn, _ table: MirrorTable, _ target: PostgresConnection
    ) throws {
        do throws(PostgresError) {
            // By itself a type is a type: behind a column's name it could be a constraint, too.
            _ = try target.execute("select cast(null as \(column.type))")
            // The server takes one statement this way and no more.
            _ = try target.execute(table.addingSQL(column))
        } catch {
            guard !error.endsConnection else { throw error }
            // Not immutable: as a rule a time that becomes a day or a text, which the session's time zone has a say in.
            let advice =
                error.sqlState == "42P17"
                ? " What it uses may depend on settings of a session, such as its time zone: write \"placed_at at time zone 'UTC'\" for a time, and a cast to a type without one after that."
                : ""
            throw MirrorError.refused(
                "The generated column \"\(column.name)\" of mirror \"\(definition.name)\" can't be: \(error.message).\(advice)"
            )
        }
    }
}
