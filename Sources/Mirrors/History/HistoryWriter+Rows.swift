import LogStore
import Postgres
import Tree

/// Writing of rows to the table.
extension HistoryWriter {
    /// Writes the pending changes to the table.
    func put(_ rows: inout HistoryRows, _ mirror: inout ActiveMirror, _ writer: inout TableWriter) throws {
        let work = rows.drain()
        guard !work.isEmpty else { return }
        let table = mirror.table
        if !work.marked.isEmpty {
            let cells = work.marked.map { Self.cells($0.keys, table) + [.int($0.seq), HistoryRows.time($0.at)] }
            let parameters = try RowEncoder.cells(table.markColumns, cells)
            try writer.add(.prepared(table.markDeleted, parameters), mirror, bytes: parameters.byteCount)
        }
        var errors = work.errors
        if mirror.mayHaveErrors, !work.changed.isEmpty {
            errors += try errorsOfLastRows(work.rowless, mirror, &writer)
            // These records now have other rows, or none. In a history each row stays, and so does each error.
            let paths = work.changed.map { mirror.definition.pattern.path(of: $0).description }
            try writer.add(MirrorErrors.removeStep(paths, of: mirror.asGeneration), mirror)
        }
        if !errors.isEmpty {
            mirror.mayHaveErrors = true
            for some in errors.chunked(Self.maxVersions) { try writer.add(mirror.storing(some), mirror) }
        }
        guard !work.rows.isEmpty else { return }
        if mirror.isCareful {
            try writer.flush()
            mirror.mayHaveErrors = true
            try putCarefully(work.rows[...], work.versions, mirror, &writer)
            return try writer.deferConstraints(mirror)
        }
        let parameters = try RowEncoder.cells(table.columns, work.rows)
        try writer.add(
            .prepared(table.upsert, parameters), mirror, bytes: parameters.byteCount, rows: work.rows.count)
    }

    /// Returns the conversion errors of the rows that stay, for records that had no row before either.
    private func errorsOfLastRows(
        _ records: [(keys: [Key], columns: Set<String>)], _ mirror: ActiveMirror, _ writer: inout TableWriter
    ) throws -> [ConversionError] {
        guard !records.isEmpty else { return [] }
        try writer.flush()
        let paths = records.map { mirror.definition.pattern.path(of: $0.keys).description }
        // Most records have no errors, and their versions are not read.
        let known = try MirrorErrors.records(writer.connection, mirror.asGeneration, among: paths)
        var errors: [ConversionError] = []
        for (record, path) in zip(records, paths) where known.contains(Array(path.utf8)) {
            try mirror.versions.forEachBackwards(writer.connection, of: RecordKey.text(record.keys)) { version in
                guard let value = try StoredRecord.decode(version.record) else { return true }
                var found: [ConversionError] = []
                let stamp = Stamp(seq: version.seq, committedAt: nil)
                let row = mirror.projector.row(value, keys: record.keys, stamp: stamp, conversionErrors: &found)
                guard row != nil else { return true }
                errors += found.filter { !record.columns.contains($0.column) }
                return false
            }
        }
        return errors
    }

    private static func cells(_ keys: [Key], _ table: MirrorTable) -> [Cell] {
        zip(keys, table.definition.keys).map { CellEncoder.cell($0, $1.type) }
    }

    /// Finds the rows that the table rejects, by halving. They are left out and recorded as errors. Their versions are kept.
    func putCarefully(
        _ rows: ArraySlice<[Cell]>, _ versions: [(keys: [Key], seq: Int64)], _ mirror: ActiveMirror,
        _ writer: inout TableWriter
    ) throws {
        let parameters = try RowEncoder.cells(mirror.table.columns, rows)
        guard let first = rows.indices.first,
            let refusal = try writer.refusal(of: parameters, rows: rows.count, mirror)
        else { return }
        guard rows.count == 1 else {
            let middle = rows.startIndex + rows.count / 2
            try putCarefully(rows[..<middle], versions, mirror, &writer)
            return try putCarefully(rows[middle...], versions, mirror, &writer)
        }
        let keys = versions[first].keys
        if mirror.definition.keeps == .latest, !refusal.isRowsKeptOut {
            // Otherwise the previous row would stay as if it were current.
            _ = try writer.attempt(.prepared(mirror.table.deleteRows, RowEncoder.keys(mirror.table, [keys])), mirror)
        }
        let error = mirror.error(of: keys, seq: versions[first].seq, mirror.refusal(refusal))
        try writer.add(mirror.storing([error]), mirror)
    }
}
