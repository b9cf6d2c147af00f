import LogStore
import Postgres

/// Columns that PostgreSQL computes from the others of their row. Nobody writes them.
extension MirrorTable {
    /// They stand behind all others.
    var generated: [Column] {
        definition.generated.map { column in
            Column(
                name: column.name, sqlType: column.type, carrier: .text, isNotNull: false,
                comment: column.comment ?? "Computed: \(column.expression)", isKey: false)
        }
    }

    /// What readers find in the table.
    var readColumns: [Column] { columns + generated }

    /// Adds them, in one pass over the rows. A row whose values an expression can't compute is what the statement fails by.
    var generatedSQL: [String] {
        guard !definition.generated.isEmpty else { return [] }
        let parts = definition.generated.map { "add column \(Self.clause($0))" }
        return ["alter table \(qualifiedName) \(parts.joined(separator: ", "))"]
    }

    /// The expression is the operator's own SQL, who owns the table: the line ends behind it, as it may end with a comment.
    private static func clause(_ column: MirrorDefinition.GeneratedColumn) -> String {
        "\(quotedIdentifier(column.name)) \(column.type) generated always as (\(column.expression)\n) stored"
    }

    /// Tries them on an empty table of the session's own, so that what is wrong with one is found before anything is built.
    ///
    /// - Throws: `MirrorError.refused` for what PostgreSQL refuses, with its words.
    func checkGenerated(_ target: PostgresConnection) throws {
        guard !definition.generated.isEmpty else { return }
        let lines = columns.map { "\(quotedIdentifier($0.name)) \($0.sqlType)" }.joined(separator: ", ")
        try target.executeScript("begin")
        defer { try? target.executeScript("rollback") }
        _ = try target.execute("create temporary table mirror_check (\(lines)) on commit drop")
        for column in definition.generated {
            do throws(PostgresError) {
                // With parameters, however few, the server takes one statement and no more.
                _ = try target.execute("alter table pg_temp.mirror_check add column \(Self.clause(column))", [])
            } catch {
                guard !error.endsConnection else { throw error }
                throw MirrorError.refused(
                    "The generated column \"\(column.name)\" of mirror \"\(definition.name)\" can't be: \(error.message)."
                )
            }
        }
        let count = try target.execute(
            "select count(*) from pg_attribute where attrelid = 'pg_temp.mirror_check'::regclass and attnum > 0 and not attisdropped"
        ).int64(0, 0)
        guard count == Int64(readColumns.count) else {
            throw MirrorError.refused(
                "An expression of a generated column of mirror \"\(definition.name)\" is more than an expression: its parentheses don't match."
            )
        }
    }
}
