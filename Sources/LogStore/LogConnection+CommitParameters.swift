import Postgres
import Tree

/// The columns in which a batch's entries and rows are sent. The connection keeps them to reuse their memory.
struct CommitColumns {
    /// Larger columns are freed after sending, because otherwise connections of idle gateways would keep the memory
    /// forever.
    private static let mostKeptBytes = 1 << 18

    fileprivate var operations = PostgresArray(of: .text)
    fileprivate var entryPaths = PostgresArray(of: .text)
    fileprivate var changes = PostgresArray(of: .json)
    fileprivate var origins = PostgresArray(of: .json)

    fileprivate var paths = PostgresArray(of: .text)
    fileprivate var rests = PostgresArray(of: .text)
    fileprivate var values = PostgresArray(of: .json)
    fileprivate var versions = PostgresArray(of: .int8)
    fileprivate var gone = PostgresArray(of: .text)

    fileprivate var text: [UInt8] = []
    fileprivate var writer = JSONWriter(form: .plain)

    fileprivate var entryBytes: Int {
        operations.byteCount + entryPaths.byteCount + changes.byteCount + origins.byteCount
    }

    fileprivate var rowBytes: Int { paths.byteCount + rests.byteCount + values.byteCount + versions.byteCount }

    fileprivate mutating func removeEntries() {
        guard entryBytes <= Self.mostKeptBytes else {
            self = CommitColumns()
            return
        }
        operations.removeAll()
        entryPaths.removeAll()
        changes.removeAll()
        origins.removeAll()
    }

    fileprivate mutating func removeRows() {
        guard rowBytes + gone.byteCount + writer.bytes.count <= Self.mostKeptBytes else {
            self = CommitColumns()
            return
        }
        paths.removeAll()
        rests.removeAll()
        values.removeAll()
        versions.removeAll()
        gone.removeAll()
        writer.removeAll()
    }
}

extension LogConnection {
    /// Returns the parameters of the statement that appends a batch's entries to the log.
    func appendParameters(_ batch: Batch) -> PostgresParameters {
        var columns = CommitColumns()
        swap(&columns, &self.columns)
        defer { swap(&columns, &self.columns) }
        for record in batch.records {
            columns.operations.appendText(record.operation.rawValue)
            columns.text.removeAll(keepingCapacity: true)
            record.path.write(to: &columns.text)
            columns.entryPaths.appendText(columns.text)
            columns.changes.appendText(record.changes)
            if let origin = record.origin {
                columns.origins.appendText(origin.json)
            } else {
                columns.origins.appendNull()
            }
        }
        var parameters = PostgresParameters()
        parameters.reserveCapacity(10, bytes: columns.entryBytes + 128)
        parameters.appendInt8(batch.namespace)
        parameters.appendInt8(batch.expectedHead)
        parameters.appendUUID(batch.id)
        parameters.append(columns.operations)
        parameters.append(columns.entryPaths)
        parameters.append(columns.changes)
        parameters.append(columns.origins)
        parameters.appendInt8(Int64(batch.records.count))
        appendLocation(batch.namespace, to: &parameters)
        if let expected = batch.expectedBatch { parameters.appendUUID(expected) } else { parameters.appendNull(.uuid) }
        columns.removeEntries()
        return parameters
    }

    /// Returns the parameters of the statement that writes a batch with one entry and one row.
    func parameters(
        of record: Batch.Record, _ path: StoredPath, _ value: Node, in batch: Batch
    ) -> PostgresParameters {
        var columns = CommitColumns()
        swap(&columns, &self.columns)
        defer { swap(&columns, &self.columns) }
        var parameters = PostgresParameters()
        parameters.reserveCapacity(13, bytes: 2 * record.changes.count + 2 * path.key.count + 256)
        parameters.appendInt8(batch.namespace)
        parameters.appendInt8(batch.expectedHead)
        parameters.appendUUID(batch.id)
        parameters.appendText(record.operation.rawValue)
        columns.text.removeAll(keepingCapacity: true)
        record.path.write(to: &columns.text)
        parameters.appendText(columns.text)
        parameters.appendJSON(record.changes)
        if let origin = record.origin { parameters.appendJSON(origin.json) } else { parameters.appendNull(.json) }
        parameters.appendInt8(1)
        appendLocation(batch.namespace, to: &parameters)
        if let expected = batch.expectedBatch { parameters.appendUUID(expected) } else { parameters.appendNull(.uuid) }
        parameters.appendText(path.key)
        if let rest = path.rest { parameters.appendText(rest) } else { parameters.appendNull(.text) }
        columns.writer.removeAll()
        columns.writer.write(value)
        parameters.appendJSON(columns.writer.bytes)
        columns.removeRows()
        return parameters
    }

    /// Returns the parameters of the statements that write and delete a batch's rows, or nil for a statement without
    /// rows.
    func rowParameters(_ batch: Batch) -> (upserts: PostgresParameters?, deletes: PostgresParameters?) {
        var columns = CommitColumns()
        swap(&columns, &self.columns)
        defer { swap(&columns, &self.columns) }
        for (path, row) in batch.rows.rows {
            let stored = StoredPath(path)
            if row.value.isNull {
                columns.gone.appendText(stored.key)
                continue
            }
            columns.paths.appendText(stored.key)
            if let rest = stored.rest { columns.rests.appendText(rest) } else { columns.rests.appendNull() }
            columns.writer.removeAll()
            columns.writer.write(row.value)
            columns.values.appendText(columns.writer.bytes)
            columns.versions.appendInt8(row.version)
        }
        var upserts: PostgresParameters?
        if columns.paths.count > 0 {
            var parameters = PostgresParameters()
            parameters.reserveCapacity(5, bytes: columns.rowBytes + 8)
            parameters.appendInt8(batch.namespace)
            parameters.append(columns.paths)
            parameters.append(columns.rests)
            parameters.append(columns.values)
            parameters.append(columns.versions)
            upserts = parameters
        }
        var deletes: PostgresParameters?
        if columns.gone.count > 0 {
            var parameters = PostgresParameters()
            parameters.reserveCapacity(2, bytes: columns.gone.byteCount + 8)
            parameters.appendInt8(batch.namespace)
            parameters.append(columns.gone)
            deletes = parameters
        }
        columns.removeRows()
        return (upserts, deletes)
    }
}

/// A batch of one write that changes one row: the most common batch under low load.
///
/// One statement without array parameters writes the entry and the row. It takes PostgreSQL three quarters of the time
/// of the two statements for general batches.
extension LogConnection {
    private enum SQL {
        // The name contains `append_log`, like those of all batches, so that a search in captured traffic finds each
        // batch by `append_log#`. Both inserts select from `head`, so nothing is written before the head is locked.
        static let appendOne = PostgresStatement(
            "one_append_log",
            """
            with \(LogConnection.movedHead), entries as (
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, origin)
                select $1, $2 + 1, head.stamp, $3, $4, $5, $6, $7 from head
            ), rows as (
                insert into pathmirror.node (namespace_id, path, rest, value, version)
                select $1, $11, $12, $13, $2 + 1 from head
                on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
            )
            \(LogConnection.locationAndTime)
            """,
            types: [
                .int8, .int8, .uuid, .text, .text, .json, .json, .int8, .text, .uuid, .text, .text, .json,
            ])
    }

    /// Returns the statement that writes the batch's entry and row, or nil if the batch has more than one of either or
    /// removes the row.
    func stepOfOne(_ batch: Batch) -> PipelineStep? {
        guard batch.records.count == 1, batch.rows.count == 1, let record = batch.records.first,
            let (path, row) = batch.rows.rows.first, !row.value.isNull
        else { return nil }
        return .prepared(SQL.appendOne, parameters(of: record, StoredPath(path), row.value, in: batch))
    }
}
