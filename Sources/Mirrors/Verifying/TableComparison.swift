import LogStore
import Postgres
import Tree

/// Compares a mirror's table with the rows of records, which are added in any order. Memory holds one batch of them.
///
/// The server compares, so values are equal exactly if they are equal in SQL (`1.0` and `1.00` as `numeric`, members of a
/// `jsonb` in any order). Of Pathmirror's own columns, `_misfits` must be equal. `_seq` is the entry that wrote a row last,
/// which the tree doesn't know: it must not be beyond the cursor. `_updated_at` is not compared.
final class TableComparison {
    private let connection: PostgresConnection
    private let mirror: ActiveMirror
    private let statement: PostgresStatement
    /// The columns, by their number in the statement's results.
    private let names: [String]
    private var batch: [ProjectedRow] = []
    private var batchBytes = 0
    /// The number of expected rows that were found.
    private var foundCount: Int64 = 0
    /// The first differences as sentences. `differenceCount` counts all of them.
    private(set) var differences: [String] = []
    private(set) var differenceCount = 0
    private var missingCount = 0

    /// The maximum number of differences that are reported one by one.
    static let maxShown = 20
    private static let rowsAtOnce = 1_000
    private static let maxBytes = 8 << 20

    /// - Parameters:
    ///   - connection: a connection to the table's database. If other sessions write to the table, it needs an open snapshot in
    ///     which the cursor was read.
    ///   - mirror: the table. `seq` is its cursor.
    init(_ connection: PostgresConnection, _ mirror: ActiveMirror) {
        self.connection = connection
        self.mirror = mirror
        let columns = mirror.table.columns
        names = columns.map(\.name)
        statement = PostgresStatement(
            "compare \(mirror.table.label)", Self.sql(mirror.table),
            types: columns.map { $0.carrier.arrayType ?? .textArray })
    }

    var isClean: Bool { differenceCount == 0 }

    /// Adds a record of the tree.
    func add(_ keys: [Key], _ record: Node) throws {
        guard let row = row(of: keys, record) else { return }
        batch.append(row)
        batchBytes += row.byteCount
        if batch.count >= Self.rowsAtOnce || batchBytes >= Self.maxBytes { try flush() }
    }

    /// Searches for unexpected rows, after all records were added.
    ///
    /// - Parameter records: returns the tree's values for some captured keys. Called while the connection streams.
    func finish(records: ([[Key]]) throws -> [Node]) throws {
        try flush()
        let name = mirror.table.qualifiedName
        let count = try connection.execute("select count(*) from \(name)").int64(0, 0)
        if count != foundCount { try findExtra(count - foundCount, records) }
        try noteUnkeptErrors()
    }

    // MARK: Expected rows

    private func row(of keys: [Key], _ record: Node) -> ProjectedRow? {
        var conversionErrors: [ConversionError] = []
        let stamp = Stamp(seq: mirror.seq, committedAt: nil)
        return mirror.projector.row(record, keys: keys, stamp: stamp, conversionErrors: &conversionErrors)
    }

    private func flush() throws {
        guard !batch.isEmpty else { return }
        let rows = try connection.executePrepared(statement, RowEncoder.upsert(mirror.table, batch))
        var missing: [[Key]] = []
        for row in 0..<rows.rowCount {
            let keys = batch[Int(try rows.int64(row, 0)) - 1].keys
            if try rows.bool(row, 1) {
                missing.append(keys)
                continue
            }
            let columns = try rows.string(row, 2).split(separator: ",").compactMap { Int($0) }.map { names[$0] }
            note("\(text(keys)): \(columns.joined(separator: ", ")) \(columns.count == 1 ? "differs" : "differ")")
        }
        foundCount += Int64(batch.count - missing.count)
        batch.removeAll(keepingCapacity: true)
        batchBytes = 0
        try take(missing: missing)
    }

    /// Handles missing rows. Those that the table has rejected are recorded as errors, and are no differences.
    private func take(missing: [[Key]]) throws {
        guard !missing.isEmpty else { return }
        let pattern = mirror.definition.pattern
        let refused = try MirrorErrors.records(
            connection, mirror.asGeneration, among: missing.map { pattern.path(of: $0).description },
            refusedOnly: true)
        for keys in missing where !refused.contains(Array(pattern.path(of: keys).description.utf8)) {
            missingCount += 1
            note("\(text(keys)) is missing")
        }
    }

    /// Returns a query for the rows that differ: each one's number in the batch, whether it is missing, and the columns.
    private static func sql(_ table: MirrorTable) -> String {
        let columns = table.columns
        let arrays = columns.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let carried = columns.indices.map { "c\($0)" }.joined(separator: ", ")
        var keys: [String] = []
        var differences: [(column: Int, condition: String)] = []
        for (index, column) in columns.enumerated() {
            let live = "live.\(quotedIdentifier(column.name))"
            let given = column.cast("given.c\(index)")
            if column.isKey {
                keys.append("\(live) = \(given)")
            } else if column.name == MirrorDefinition.seqColumn {
                differences.append((index, "\(live) is null or \(live) > \(given)"))
            } else if column.name != MirrorDefinition.updatedAtColumn {
                differences.append((index, "\(live) is distinct from \(given)"))
            }
        }
        let numbers = differences.map { "case when \($0.condition) then \($0.column) end" }.joined(separator: ", ")
        let isMissing = "live.\(quotedIdentifier(columns[0].name)) is null"
        return """
            select given.n, \(isMissing), array_to_string(array[\(numbers)], ',')
            from unnest(\(arrays)) with ordinality as given (\(carried), n)
            left join \(table.qualifiedName) as live on \(keys.joined(separator: " and "))
            where \(isMissing) or \(differences.map { "(\($0.condition))" }.joined(separator: " or "))
            order by given.n
            """
    }

    // MARK: Unexpected rows

    private func findExtra(_ surplus: Int64, _ records: ([[Key]]) throws -> [Node]) throws {
        let keys = mirror.table.columns.filter(\.isKey).map { quotedIdentifier($0.name) }
        let texts = zip(keys, mirror.definition.keys).map { name, key in
            // The text form of a date depends on the settings of the server or the role.
            key.type == .date ? "to_char(\(name), 'YYYY-MM-DD')" : "\(name)::text"
        }
        let sql = """
            select \(texts.joined(separator: ", ")) from \(mirror.table.qualifiedName)
            order by \(keys.joined(separator: ", "))
            """
        var scan = Scan(left: surplus)
        try connection.forEachRow(sql) { row in
            var found: [Key] = []
            for column in keys.indices { found.append(Key(row.isNull(column) ? "" : try row.string(column))) }
            scan.some.append(found)
            if scan.some.count >= Self.rowsAtOnce { try look(&scan, records) }
        }
        try look(&scan, records)
        if scan.left != 0 { note("the table has \(scan.left) more rows than expected, which could not be identified") }
    }

    /// The progress of the search for unexpected rows.
    private struct Scan {
        /// The number of rows that are still to be found.
        var left: Int64
        var some: [[Key]] = []
        var last: [Key]?
    }

    private func look(_ scan: inout Scan, _ records: ([[Key]]) throws -> [Node]) throws {
        for (keys, record) in zip(scan.some, try records(scan.some)) {
            let isSecond = keys == scan.last
            scan.last = keys
            guard isSecond || row(of: keys, record) == nil else { continue }
            scan.left -= 1
            note("\(text(keys)) \(isSecond ? "occurs twice" : "should not be there")")
        }
        scan.some.removeAll(keepingCapacity: true)
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

    // MARK: Reporting

    private func note(_ difference: String) {
        differenceCount += 1
        if differences.count < Self.maxShown { differences.append(difference) }
    }

    /// Returns a text such as `row post_id "a"`.
    private func text(_ keys: [Key]) -> String {
        let parts = zip(mirror.definition.keys, keys).map { column, key in
            "\(column.name) \(String(decoding: JSONWriter.encode(.string(key.text), form: .plain), as: UTF8.self))"
        }
        return "row \(parts.joined(separator: ", "))"
    }
}

extension ProjectedRow {
    /// The approximate size of the row in memory, in bytes.
    fileprivate var byteCount: Int {
        cells.reduce(64) { size, cell in
            switch cell {
            case .text(let text), .decimal(let text): size + text.utf8.count
            case .json(let bytes): size + bytes.count
            case .texts(let members): size + members.reduce(0) { $0 + ($1?.utf8.count ?? 0) + 8 }
            default: size + 16
            }
        }
    }
}
