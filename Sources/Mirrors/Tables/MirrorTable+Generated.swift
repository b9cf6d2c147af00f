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
        let parts = definition.generated.map { "add column \(clause($0))" }
        return ["alter table \(qualifiedName) \(parts.joined(separator: ", "))"]
    }

    /// The expression is the operator's own SQL, who owns the table: the line ends behind it, as it may end with a comment.
    private func clause(_ column: MirrorDefinition.GeneratedColumn) -> String {
        // The version that says that a record was gone has no values, and must not fail for that.
        let value =
            definition.keeps == .versions
            ? "case when not \"_deleted\" then (\(column.expression)\n) end" : column.expression
        return "\(quotedIdentifier(column.name)) \(column.type) generated always as (\(value)\n) stored"
    }

    /// Adds one of them.
    func addingSQL(_ column: MirrorDefinition.GeneratedColumn) -> String {
        "alter table \(qualifiedName) add column \(clause(column))"
    }
}
