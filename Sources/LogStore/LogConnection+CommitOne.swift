import Postgres
import Tree

/// A batch of one write that changes one row: the most common one where few write at once.
///
/// Its entry and its row are written by one statement whose parameters are no arrays: it takes PostgreSQL three quarters of the time of the
/// two that write any batch.
extension LogConnection {
    private enum SQL {
        // Named so that whoever looks at what is sent finds each batch by the same letters, `append_log#`. Entry and row both come
        // from the head, so that nothing is written before its lock is held.
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
            \(LogConnection.placeAndTime)
            """,
            types: [
                .int8, .int8, .uuid, .text, .text, .json, .json, .int8, .text, .uuid, .text, .text, .json,
            ])
    }

    /// The statement that writes the batch's entry and row; nil where it has more of either, or removes the row.
    func stepOfOne(_ batch: Batch) -> PipelineStep? {
        guard batch.records.count == 1, batch.rows.count == 1, let record = batch.records.first,
            let (path, row) = batch.rows.rows.first, !row.value.isNull
        else { return nil }
        return .prepared(SQL.appendOne, parameters(of: record, StoredPath(path), row.value, in: batch))
    }
}
