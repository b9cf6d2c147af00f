import LogStore
import Postgres
import Tree

/// Rows on their way to the table.
extension HistoryWriter {
    /// Writes to the table what there is to be done.
    func put(_ rows: inout HistoryRows, _ mirror: inout ActiveMirror, _ writer: inout TableWriter) throws {
        let work = rows.drain()
        guard !work.isEmpty else { return }
        let table = mirror.table
        if !work.ended.isEmpty {
            let cells = work.ended.map { Self.cells($0.keys, table) + [HistoryRows.time($0.at)] }
            let parameters = try RowEncoder.cells(table.endColumns, cells)
            try writer.add(.prepared(table.endVersions, parameters), mirror, bytes: parameters.byteCount)
        }
        if !work.marked.isEmpty {
            let cells = work.marked.map { Self.cells($0.keys, table) + [.int($0.seq), HistoryRows.time($0.at)] }
            let parameters = try RowEncoder.cells(table.markColumns, cells)
            try writer.add(.prepared(table.markDeleted, parameters), mirror, bytes: parameters.byteCount)
        }
        if mirror.mayHaveErrors, !work.changed.isEmpty {
            // They have other rows now, or none. Of a history each row stays, and so does each error.
            let paths = work.changed.map { mirror.definition.pattern.path(of: $0).description }
            try writer.add(MirrorErrors.removeStep(paths, of: mirror.asGeneration), mirror)
        }
        if !work.errors.isEmpty {
            mirror.mayHaveErrors = true
            for some in work.errors.chunked(Self.maxVersions) { try writer.add(mirror.storing(some), mirror) }
        }
        guard !work.rows.isEmpty else { return }
        if mirror.isCareful {
            try writer.flush()
            mirror.mayHaveErrors = true
            return try putCarefully(work.rows[...], work.places, mirror, &writer)
        }
        let parameters = try RowEncoder.cells(table.columns, work.rows)
        try writer.add(.prepared(table.upsert, parameters), mirror, bytes: parameters.byteCount)
    }

    private static func cells(_ keys: [Key], _ table: MirrorTable) -> [Cell] {
        zip(keys, table.definition.keys).map { CellEncoder.cell($0, $1.type) }
    }

    /// Finds the rows that the table refuses, halving; they are left out and recorded. What they were made of is kept.
    func putCarefully(
        _ rows: ArraySlice<[Cell]>, _ places: [(keys: [Key], seq: Int64)], _ mirror: ActiveMirror,
        _ writer: inout TableWriter
    ) throws {
        let target = writer.connection
        let parameters = try RowEncoder.cells(mirror.table.columns, rows)
        do throws(PostgresError) {
            try target.pipeline([
                .query("savepoint careful"), .prepared(mirror.table.upsert, parameters),
                .query("release savepoint careful"),
            ])
            return
        } catch {
            guard error.isAboutData, let first = rows.indices.first else { throw MirrorError(error) }
            try target.executeScript("rollback to savepoint careful; release savepoint careful")
            guard rows.count == 1 else {
                let middle = rows.startIndex + rows.count / 2
                try putCarefully(rows[..<middle], places, mirror, &writer)
                return try putCarefully(rows[middle...], places, mirror, &writer)
            }
            let keys = places[first].keys
            if mirror.definition.keeps == .latest {
                // Otherwise the row of before would stay as if it were so now.
                try writer.add(
                    .prepared(mirror.table.deleteRows, RowEncoder.keys(mirror.table, [keys])), mirror)
            }
            let path = mirror.definition.pattern.path(of: keys).description
            let refusal = ConversionError(
                record: path, column: "", path: path, seq: places[first].seq, value: nil,
                reason: "the table refuses the row: \(error.message)")
            try writer.add(mirror.storing([refusal]), mirror)
        }
    }
}
