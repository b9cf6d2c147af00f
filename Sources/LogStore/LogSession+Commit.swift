import Postgres
import Tree

extension LogSession {
    /// What became of a batch.
    public enum CommitOutcome: Sendable, Equatable {
        case committed
        /// Another gateway's entries are in the log behind the expected head. Nothing was written.
        case headMoved
        /// A session's orders that are in the batch have been carried out by somebody else. Nothing was written.
        case alreadyClaimed
    }

    private enum SQL {
        static let begin = PostgresStatement("begin", "begin")
        static let commit = PostgresStatement("commit", "commit")
        static let advance = PostgresStatement(
            "advance", "select pathmirror.advance($1, $2, $3, $4, $5)", types: [.int8, .int8, .int8, .uuid, .uuid])
        static let lockHead = PostgresStatement(
            "lock_head", "select head from pathmirror.namespace where id = $1 for update", types: [.int8])
        // The clock is read after the head's lock was taken, so that times follow the order of seqs.
        static let appendLog = PostgresStatement(
            "append_log",
            """
            insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, origin)
            select $1, $2 + n, clock_timestamp(), $3, op, path, changes, origin
            from unnest($4, $5, $6::json[], $7::json[]) with ordinality as entry (op, path, changes, origin, n)
            """, types: [.int8, .int8, .uuid, .textArray, .textArray, .textArray, .textArray])
        static let upsertRows = PostgresStatement(
            "upsert_rows",
            """
            insert into pathmirror.node (namespace_id, path, rest, value, version)
            select $1, path, rest, value, version from unnest($2, $3, $4::json[], $5) as row (path, rest, value, version)
            on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
            """, types: [.int8, .textArray, .textArray, .textArray, .int8Array])
        // Not prepared: a plan that was made while the table was small, and kept, would go through all of it and compare
        // each row with each path. One that is made for the paths at hand doesn't, whatever the statistics say.
        static let deleteRows = "delete from pathmirror.node where namespace_id = $1 and path = any($2)"
        static let notify = PostgresStatement("notify", "select pg_notify('pathmirror', $1)", types: [.text])
    }

    /// Commits a batch: its log entries, its rows, its announcement, in one transaction.
    ///
    /// One round trip (a large batch takes a few, as COPY can't be pipelined). When the head was not the expected one,
    /// nothing is written.
    ///
    /// - Parameter isLocked: the head's lock is held already, by `lockHead`.
    /// - Throws: `isConnectionLost`: the outcome is unknown until `findBatch` says it.
    public func commit(_ batch: Batch, isLocked: Bool = false) throws(LogStoreError) -> CommitOutcome {
        if !isLocked { try ensurePartition(batch.namespace, upTo: batch.newHead) }
        let usual = bePatient(with: batch)
        defer { connection.statementTimeoutMs = usual }
        do {
            if batch.rows.count > settings.copyThreshold {
                try commitByCopy(batch, isLocked)
            } else {
                try connection.pipeline(steps(batch, isLocked))
            }
            return .committed
        } catch let error as PostgresError where error.sqlState == "PM001" {
            // Under the lock as well, if the head is of another history.
            if isLocked, connection.isOpen { unlockHead() }
            return .headMoved
        } catch let error as PostgresError where error.sqlState == "PM002" {
            if isLocked, connection.isOpen { unlockHead() }
            return .alreadyClaimed
        } catch {
            if isLocked, connection.isOpen { unlockHead() }
            throw LogStoreError(error)
        }
    }

    /// Begins a transaction, waits for the head's lock, and returns the head: where gateways contend, evaluating under the
    /// lock beats guessing. Ends with `commit(isLocked:)` or `unlockHead`.
    public func lockHead(_ namespace: Int64, expectedHead: Int64) throws(LogStoreError) -> Int64 {
        var expectedHead = expectedHead
        while true {
            // A partition is made in a transaction of its own, before.
            try ensurePartition(namespace, upTo: expectedHead + settings.entriesPerPartition / 4)
            let head: Int64
            do {
                let results = try connection.pipeline([
                    .prepared(SQL.begin), .prepared(SQL.lockHead, [.int8(namespace)]),
                ])
                head = try results[1].int64(0, 0)
            } catch {
                // The transaction has begun, whatever became of the lock.
                unlockHead()
                throw LogStoreError(error)
            }
            if partitionedTo[namespace, default: 0] > head + settings.entriesPerPartition / 8 { return head }
            // The head is far beyond what was expected: there may be nowhere to write to.
            unlockHead()
            expectedHead = head
        }
    }

    /// Gives the head's lock back without having written.
    public func unlockHead() {
        if connection.isOpen { try? connection.executeScript("rollback") }
    }

    private func steps(_ batch: Batch, _ isLocked: Bool) -> [PipelineStep] {
        var steps: [PipelineStep] = isLocked ? [] : [.prepared(SQL.begin)]
        steps.append(.prepared(SQL.advance, advanceParameters(batch)))
        steps.append(.prepared(SQL.appendLog, logParameters(batch)))
        var upserts = PostgresParameters()
        var deletes = PostgresParameters()
        let (upsertCount, deleteCount) = rowParameters(batch, &upserts, &deletes)
        if upsertCount > 0 { steps.append(.prepared(SQL.upsertRows, upserts)) }
        if deleteCount > 0 { steps.append(.query(SQL.deleteRows, deletes)) }
        steps.append(contentsOf: rulesSteps(batch))
        steps.append(contentsOf: claimSteps(batch))
        steps.append(.prepared(SQL.notify, [.text("\(batch.namespace) \(batch.newHead)")]))
        steps.append(.prepared(SQL.commit))
        return steps
    }

    private func rulesSteps(_ batch: Batch) -> [PipelineStep] {
        batch.rules.map { rules in
            .query(
                "insert into pathmirror.rule (namespace_id, seq, source) values ($1, $2, $3)",
                [.int8(batch.namespace), .int8(rules.seq), .textBytes(rules.source)])
        }
    }

    private func claimSteps(_ batch: Batch) -> [PipelineStep] {
        batch.claims.map {
            .query("select pathmirror.claim_session($1, $2)", [.int8(batch.namespace), .text($0)])
        }
    }

    private func advanceParameters(_ batch: Batch) -> PostgresParameters {
        [
            .int8(batch.namespace), .int8(batch.expectedHead), .int8(Int64(batch.records.count)),
            batch.expectedBatch.map { .uuid($0) } ?? .null(.uuid), .uuid(batch.id),
        ]
    }

    private func logParameters(_ batch: Batch) -> PostgresParameters {
        var operations = PostgresArray(of: .text)
        var paths = PostgresArray(of: .text)
        var changes = PostgresArray(of: .text)
        var origins = PostgresArray(of: .text)
        for record in batch.records {
            operations.appendText(record.operation.rawValue)
            paths.appendText(record.path.description)
            changes.appendText(record.changes)
            if let origin = record.origin { origins.appendText(origin.json) } else { origins.appendNull() }
        }
        var parameters = PostgresParameters()
        parameters.appendInt8(batch.namespace)
        parameters.appendInt8(batch.expectedHead)
        parameters.appendUUID(batch.id)
        parameters.append(operations)
        parameters.append(paths)
        parameters.append(changes)
        parameters.append(origins)
        return parameters
    }

    private func rowParameters(
        _ batch: Batch, _ upserts: inout PostgresParameters, _ deletes: inout PostgresParameters
    ) -> (upserts: Int, deletes: Int) {
        var paths = PostgresArray(of: .text)
        var rests = PostgresArray(of: .text)
        var values = PostgresArray(of: .text)
        var versions = PostgresArray(of: .int8)
        var gone = PostgresArray(of: .text)
        for (path, row) in batch.rows.rows {
            let stored = StoredPath(path)
            if row.value.isNull {
                gone.appendText(stored.key)
                continue
            }
            paths.appendText(stored.key)
            if let rest = stored.rest { rests.appendText(rest) } else { rests.appendNull() }
            values.appendText(JSONWriter.encode(row.value, form: .plain))
            versions.appendInt8(row.version)
        }
        upserts.appendInt8(batch.namespace)
        upserts.append(paths)
        upserts.append(rests)
        upserts.append(values)
        upserts.append(versions)
        deletes.appendInt8(batch.namespace)
        deletes.append(gone)
        return (paths.count, gone.count)
    }

    /// A large batch: the same transaction, with its rows sent by COPY.
    private func commitByCopy(_ batch: Batch, _ isLocked: Bool) throws {
        do {
            if !isLocked { _ = try connection.executePrepared(SQL.begin) }
            try connection.pipeline([
                .prepared(SQL.advance, advanceParameters(batch)),
                .prepared(SQL.appendLog, logParameters(batch)),
            ])
            // Rows that exist go first and come back by COPY, which can only add.
            try deleteExisting(batch)
            try connection.copyIn(RowCopy.sql) { writer in
                for (path, row) in batch.rows.rows where !row.value.isNull {
                    try RowCopy.write(
                        batch.namespace, StoredPath(path), JSONWriter.encode(row.value, form: .plain), row.version,
                        to: &writer)
                }
            }
            try connection.pipeline(
                rulesSteps(batch) + claimSteps(batch) + [
                    .prepared(SQL.notify, [.text("\(batch.namespace) \(batch.newHead)")]),
                    .prepared(SQL.commit),
                ])
        } catch {
            if connection.isOpen { try connection.executeScript("rollback") }
            throw error
        }
    }

    private func deleteExisting(_ batch: Batch) throws(PostgresError) {
        var gone = PostgresArray(of: .text)
        let flush = { (gone: inout PostgresArray) throws(PostgresError) in
            guard gone.count > 0 else { return }
            var parameters = PostgresParameters()
            parameters.appendInt8(batch.namespace)
            parameters.append(gone)
            _ = try self.connection.execute(SQL.deleteRows, parameters)
            gone.removeAll()
        }
        for (path, row) in batch.rows.rows where row.existed {
            gone.appendText(StoredPath(path).key)
            if gone.count == 10_000 { try flush(&gone) }
        }
        try flush(&gone)
    }

    /// Whether the batch is in the log. Waits until a transaction that may still be writing it has ended.
    public func findBatch(_ batch: Batch) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            let results = try connection.pipeline([
                .prepared(SQL.begin),
                .prepared(SQL.lockHead, [.int8(batch.namespace)]),
                .query(
                    "select count(*) from pathmirror.log where namespace_id = $1 and seq = $2 and batch_id = $3",
                    [.int8(batch.namespace), .int8(batch.expectedHead + 1), .uuid(batch.id)]),
                .prepared(SQL.commit),
            ])
            return try results[2].int64(0, 0) > 0
        }
    }

    /// Makes the partitions for seqs up to `seq`, and the next one early enough that no commit waits for it.
    public func ensurePartition(_ namespace: Int64, upTo seq: Int64) throws(LogStoreError) {
        guard partitionedTo[namespace, default: 0] <= seq else { return }
        let each = settings.entriesPerPartition
        try translated { () throws(PostgresError) in
            let result = try connection.execute(
                "select pathmirror.ensure_log_partition($1, $2, $3)",
                [.int8(namespace), .int8(seq + each / 2), .int8(each)])
            partitionedTo[namespace] = try result.int64(0, 0)
        }
    }
}
