import LogStore
import Postgres
import Tree

/// Compares a table that has a history: the newest versions with the records of the tree, which are added in any order, and
/// every row with the one that the versions produce.
///
/// Runs in a transaction in which no session moves the cursor. Memory holds one batch.
final class HistoryComparison {
    private let connection: PostgresConnection
    private let mirror: ActiveMirror
    private var batch: [(keys: [Key], value: Node)] = []
    private var recordCount: Int64 = 0
    private var rowCount: Int64 = 0
    private var missingCount = 0
    /// The first differences, as sentences.
    private(set) var differences: [String] = []
    private(set) var differenceCount = 0

    init(_ connection: PostgresConnection, _ mirror: ActiveMirror) {
        self.connection = connection
        self.mirror = mirror
    }

    /// Adds a record of the tree.
    func add(_ keys: [Key], _ value: Node) throws {
        guard mirror.projector.holds(keys) else { return }
        batch.append((keys, value))
        if batch.count >= 1_000 { try compareRecords() }
    }

    /// Finishes the comparison after all records were added.
    func finish() throws {
        try compareRecords()
        let known = try mirror.versions.count(connection)
        if known > recordCount { note("\(known - recordCount) records are stored as present, but are not in the tree") }
        try compareRows()
        let count = try connection.execute("select count(*) from \(mirror.table.qualifiedName)").int64(0, 0)
        if count > rowCount { note("the table has \(count - rowCount) rows that should not be there") }
        try noteUnkeptErrors()
    }

    private func compareRecords() throws {
        try mirror.versions.forEachNewest(connection, of: batch.map { RecordKey.text($0.keys) }) { index, known in
            if known?.record != nil { recordCount += 1 }
            // A record that was too large to be stored can't be compared.
            guard let kept = try StoredRecord.decode(known?.record), kept != batch[index].value else { return }
            note("\(mirror.definition.pattern.path(of: batch[index].keys)): the stored version differs from the tree")
        }
        batch.removeAll(keepingCapacity: true)
    }

    // MARK: Rows

    private func compareRows() throws {
        var rows = HistoryRows(mirror.projector)
        let statement = PostgresStatement(
            "compare \(mirror.table.label)", sql,
            types: mirror.table.columns.map { $0.carrier.arrayType ?? .textArray })
        try mirror.versions.read(connection, .all) { slice in
            for change in slice { try rows.follow(change.version) }
            try compare(rows.drain(), statement)
        }
        rows.endLast()
        try compare(rows.drain(), statement)
    }

    private func compare(_ work: HistoryRows.Work, _ statement: PostgresStatement) throws {
        guard !work.rows.isEmpty else { return }
        let columns = mirror.table.columns
        let found = try connection.executePrepared(statement, try RowEncoder.cells(columns, work.rows))
        rowCount += Int64(work.rows.count)
        var missing: [(path: String, seq: Int64)] = []
        for row in 0..<found.rowCount {
            let version = work.versions[Int(try found.int64(row, 0)) - 1]
            let path = mirror.definition.pattern.path(of: version.keys).description
            if try found.bool(row, 1) {
                missing.append((path, version.seq))
                continue
            }
            let names = try found.string(row, 2).split(separator: ",").compactMap { Int($0) }.map { columns[$0].name }
            note("the row of \(path) by entry \(version.seq): \(names.joined(separator: ", ")) differ")
        }
        try take(missing)
    }

    /// Handles missing rows. Those that the table has rejected are recorded as errors, and are no differences.
    private func take(_ missing: [(path: String, seq: Int64)]) throws {
        guard !missing.isEmpty else { return }
        let refused = try MirrorErrors.refused(
            connection, mirror.asGeneration, of: missing.map { ($0.path, $0.seq) },
            apartByEntries: mirror.definition.isHistory)
        rowCount -= Int64(missing.count)
        for (index, row) in missing.enumerated() where !refused.contains(index) {
            missingCount += 1
            note("the row of \(row.path) by entry \(row.seq) is missing")
        }
    }

    /// Notes that the table may have rejected some of the missing rows, if some errors were not stored.
    private func noteUnkeptErrors() throws {
        guard missingCount > 0 else { return }
        let unkept = try MirrorErrors.unkept(connection, mirror.asGeneration)
        guard unkept > 0 else { return }
        differences.append(
            "\(missingCount) rows are missing; the table may have refused some, because \(unkept) errors were not kept (see \"keep errors\")"
        )
    }

    private var sql: String {
        let table = mirror.table
        let columns = table.columns
        let arrays = columns.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let carried = columns.indices.map { "c\($0)" }.joined(separator: ", ")
        var keys: [String] = []
        var numbers: [String] = []
        for (index, column) in columns.enumerated() {
            let live = "live.\(quotedIdentifier(column.name))"
            let given = column.cast("given.c\(index)")
            if table.identity.contains(column.name) {
                keys.append("\(live) = \(given)")
            } else {
                numbers.append("case when \(live) is distinct from \(given) then \(index) end")
            }
        }
        let isMissing = "live.\(quotedIdentifier(columns[0].name)) is null"
        return """
            select n, is_missing, different from (
                select given.n, \(isMissing) as is_missing, array_to_string(array[\(numbers.joined(separator: ", "))], ',') as different
                from unnest(\(arrays)) with ordinality as given (\(carried), n)
                left join \(table.qualifiedName) as live on \(keys.joined(separator: " and "))
            ) as found where is_missing or different <> '' order by n
            """
    }

    private func note(_ difference: String) {
        differenceCount += 1
        if differences.count < TableComparison.maxShown { differences.append(difference) }
    }
}
