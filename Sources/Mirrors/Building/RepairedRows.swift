import Postgres

/// Sets the `_seq` of the rows that a new table corrects to the entry at which the new table replaces the former one.
///
/// Readers select rows by `_seq`. The former table follows the log while the new one is built, so readers may have seen later entries than the
/// entry at which the new table was filled, and would miss a corrected row that kept its old entry. They miss no other row, as both tables
/// follow the log. `mark` compares the two tables before the swap, when no writer waits; `settle` updates the marked rows in the transaction
/// that swaps the tables.
struct RepairedRows {
    private let former: String
    private let table: MirrorTable
    private let keys: [String]
    private let columns: [String]
    private let target: PostgresConnection

    /// Larger than any seq. A row written after it was marked gets the seq of its own entry, as in the former table.
    private static let marker = Int64.max

    /// Returns nil if the former table is missing or lacks a key, because such a table follows no log. Columns that it lacks,
    /// or has with another type, are not compared.
    ///
    /// - Parameter old: the definition of both tables.
    init?(_ old: MirrorDefinition, _ table: MirrorTable, _ target: PostgresConnection) throws(PostgresError) {
        self.table = table
        self.target = target
        former = MirrorTable(old, name: old.table, label: "").qualifiedName
        let own = [MirrorDefinition.seqColumn, MirrorDefinition.updatedAtColumn]
        let names = table.columns.map(\.name).filter { !own.contains($0) }
        var wanted = PostgresArray(of: .text)
        for name in names { wanted.appendText(name) }
        let rows = try target.execute(
            """
            select attname::text from pg_attribute as own
            where attrelid = to_regclass($1) and attname = any($3) and not attisdropped and exists (
                select from pg_attribute as former where former.attrelid = to_regclass($2) and former.attname = own.attname
                    and not former.attisdropped and former.atttypid = own.atttypid and former.attcollation = own.attcollation)
            """, [.text(table.qualifiedName), .text(former), .array(wanted)])
        var found: Set<String> = []
        for row in 0..<rows.rowCount { found.insert(try rows.string(row, 0)) }
        let keys = table.columns.filter(\.isKey).map(\.name)
        guard found.isSuperset(of: keys) else { return nil }
        self.keys = keys
        columns = names.filter { found.contains($0) && !keys.contains($0) }
    }

    /// The index that finds the marked rows, so that the swap, for which other sessions wait, does not read the whole table.
    private var marks: (name: String, column: String) {
        (RelationName.joined([table.name, "marks"]), quotedIdentifier(MirrorDefinition.seqColumn))
    }

    /// Marks the rows that differ from the former table. Returns whether there are any.
    func mark() throws(PostgresError) -> Bool {
        let (index, column) = marks
        try target.executeScript(
            "create index \(quotedIdentifier(index)) on \(table.qualifiedName) (\(column)) where \(column) = \(Self.marker)"
        )
        let same =
            keys.map { "former.\(quotedIdentifier($0)) = made.\(quotedIdentifier($0))" }
            + columns.map { "former.\(quotedIdentifier($0)) is not distinct from made.\(quotedIdentifier($0))" }
        let marked = try target.execute(
            """
            update \(table.qualifiedName) as made set \(column) = \(Self.marker)
            where not exists (select from \(former) as former where \(same.joined(separator: " and ")))
            """
        ).affectedRows
        if marked == 0 { try dropIndex() }
        return marked > 0
    }

    /// Sets the `_seq` of the marked rows.
    func settle(at seq: Int64) throws(PostgresError) {
        let column = marks.column
        try target.executeScript(
            "update \(table.qualifiedName) set \(column) = \(seq) where \(column) = \(Self.marker)")
        try dropIndex()
    }

    private func dropIndex() throws(PostgresError) {
        try target.executeScript("drop index \(quotedIdentifier(table.schema)).\(quotedIdentifier(marks.name))")
    }
}
