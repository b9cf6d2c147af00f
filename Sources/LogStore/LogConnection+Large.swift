import Postgres
import Tree

/// Large writes: the slow part is done before the head is locked.
///
/// One transaction writes the entry's changes and the tree's rows under a number of its own, then locks and moves the
/// head, and records the entry for which the number stands. Transactions that write the same rows in the meantime wait
/// for it, and their gateways may end it.
///
///     beginLarge            begin; a number N from the sequence large_write_number
///     stagePart             log_part: rows with seq = -N                  no lock that other writers need,
///     stageRows             node: rows with version = -N                  except on the same rows
///     lockHeadForLarge      locks the head, which is at S
///     commitLarge           namespace: head = S + 1
///                           log: row S + 1 with the number of parts, and no changes of its own
///                           log_part: seq = S + 1 in place of -N
///                           large_write: N stands for S + 1
///                           named_write: the names of the writes, if they have any
///                           commit
extension LogConnection {
    private enum SQL {
        static let append = """
            with head as materialized (
                select place, stamp from pathmirror.move_head($1, $2, 1, $8::text::tid, $3, $9)
            ), entry as (
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, parts, origin)
                select $1, $2 + 1, head.stamp, $3, $4, $5, '{}', $6, $7 from head
            )
            select place::text from head
            """
    }

    /// Begins a large write and returns its number. The write ends with `commitLarge` or `unlockHead`.
    ///
    /// - Parameter head: the current head of the namespace.
    public func beginLarge(_ namespace: Int64, head: Int64) throws(LogStoreError) -> Int64 {
        // The head at the end of the large write is not known yet.
        try ensurePartition(namespace, upTo: head + room)
        return try translated { () throws(PostgresError) in
            let results = try postgres.pipeline([
                .query("begin"),
                .query("select nextval('pathmirror.large_write_number')"),
            ])
            return try results[1].int64(0, 0)
        }
    }

    /// Writes a part of the entry's changes.
    public func stagePart(
        _ namespace: Int64, large number: Int64, part: Int32, changes: [UInt8]
    ) throws(LogStoreError) {
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        parameters.appendInt8(-number)
        parameters.appendInt4(part)
        parameters.appendJSON(changes)
        // The server reads and compresses the part without sending anything.
        let usual = bePatient(withBytes: changes.count)
        defer { postgres.statementTimeoutMilliseconds = usual }
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                "insert into pathmirror.log_part (namespace_id, seq, part, changes) values ($1, $2, $3, $4)", parameters
            )
        }
    }

    /// Writes the tree's rows in pieces, so that a watcher sees progress.
    public func stageRows(_ namespace: Int64, large number: Int64, _ changes: RowChanges) throws(LogStoreError) {
        do {
            try deleteExisting(namespace, changes)
            var rows = changes.rows.makeIterator()
            var next = rows.next()
            while next != nil {
                try postgres.copyIn(RowCopy.sql) { writer in
                    var count = 0
                    while let (path, row) = next, count < 20_000 {
                        next = rows.next()
                        if row.value.isNull { continue }
                        try RowCopy.write(
                            namespace, StoredPath(path), JSONWriter.encode(row.value, form: .plain), -number,
                            to: &writer)
                        count += 1
                    }
                }
            }
        } catch {
            throw LogStoreError(error)
        }
    }

    /// Locks the head for a large write whose changes and rows are written, and returns the head.
    public func lockHeadForLarge(_ namespace: Int64) throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            let head = try lockHeadNow(namespace)
            // A gateway cancels another's large write that blocks its rows, and recognizes it by its application name.
            // The changed name protects this one, which is close to its end.
            _ = try postgres.execute(
                "select set_config('application_name', current_setting('application_name') || ' at the head', true)")
            return head
        }
    }

    /// Makes the large write the next entry, and commits. The caller holds the head's lock, and the head is the batch's
    /// `expectedHead`. The caller announces the commit with `announce`.
    ///
    /// - Parameter batch: a batch of one record, whose changes are in the parts.
    /// - Returns: `committed`, `following` or `superseded`.
    /// - Throws: `isConnectionLost`: the outcome is unknown until `findBatch` returns it.
    public func commitLarge(
        _ batch: Batch, large number: Int64, parts: Int32
    ) throws(LogStoreError) -> CommitOutcome {
        guard let record = batch.records.first else { return .committed }
        var entry = PostgresParameters()
        entry.appendInt8(batch.namespace)
        entry.appendInt8(batch.expectedHead)
        entry.appendUUID(batch.id)
        entry.appendText(record.operation.rawValue)
        entry.appendText(record.path.description)
        entry.appendInt4(parts)
        if let origin = record.origin { entry.appendJSON(origin.json) } else { entry.appendNull(.json) }
        appendLocation(batch.namespace, to: &entry)
        if let expected = batch.expectedBatch { entry.appendUUID(expected) } else { entry.appendNull(.uuid) }
        // The commit flushes everything that is not on the server's disk yet.
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        let numbers: PostgresParameters = [.int8(batch.namespace), .int8(-number), .int8(batch.newHead)]
        let steps: [PipelineStep] = [
            .query(SQL.append, entry),
            .query("update pathmirror.log_part set seq = $3 where namespace_id = $1 and seq = $2", numbers),
            .query("insert into pathmirror.large_write (id, namespace_id, seq) values (-$2::bigint, $1, $3)", numbers),
        ]
        do throws(PostgresError) {
            let results = try postgres.pipeline(followSteps(batch) + steps + nameSteps(batch) + [.query("commit")])
            try noteLocation(batch.namespace, results[Self.followStepCount(batch)], column: 0)
            return .committed
        } catch {
            switch SchemaErrorCode(error) {
            case .following: return .following
            case .superseded: return .superseded
            default: throw .database(error)
            }
        }
    }
}
