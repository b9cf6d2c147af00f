public import Postgres
import Tree

extension LogConnection {
    /// The outcome of committing a batch.
    public enum CommitOutcome: Sendable, Equatable {
        case committed
        /// The log contains entries of another gateway after the expected head. Nothing was written.
        case headMoved
        /// Another gateway has executed or changed a session's operations that are in the batch. Nothing was written.
        case alreadyClaimed
        /// A named write of the batch has been done before. Nothing was written.
        case alreadyDone
        /// The namespace follows an upstream, and the batch has no right to write to it. Nothing was written.
        case following
        /// Another gateway follows the upstream by now, or the batch does not continue the committed messages. Nothing
        /// was written.
        case superseded
    }

    private enum SQL {
        static let begin = PostgresStatement("begin", "begin")
        static let commit = PostgresStatement("commit", "commit")
        static let lockHead = PostgresStatement(
            "lock_head", "select head, place::text from pathmirror.lock_head($1, $2::text::tid)", types: [.int8, .text])
        // The entries are stamped under the head's lock, so that times follow the order of seqs.
        static let append = PostgresStatement(
            "append_log",
            """
            with \(LogConnection.movedHead), entries as (
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, origin)
                select $1, $2 + n, head.stamp, $3, op, path, changes, origin
                from head, unnest($4, $5, $6, $7) with ordinality as entry (op, path, changes, origin, n)
            )
            \(LogConnection.locationAndTime)
            """,
            types: [
                .int8, .int8, .uuid, .textArray, .textArray, .jsonArray, .jsonArray, .int8, .text, .uuid,
            ])
        static let upsertRows = PostgresStatement(
            "upsert_rows",
            """
            insert into pathmirror.node (namespace_id, path, rest, value, version)
            select $1, path, rest, value, version from unnest($2, $3, $4, $5) as row (path, rest, value, version)
            on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
            """, types: [.int8, .textArray, .textArray, .jsonArray, .int8Array])
        // Not all servers are built with LZ4.
        static let compressByLZ4 = """
            select set_config(name, 'lz4', false) from pg_settings
            where name = 'default_toast_compression' and 'lz4' = any (enumvals)
            """
        // The statement is not prepared: a cached plan from a time when the table was small would scan the whole table
        // and compare each row with each path. A plan for the actual paths does not, regardless of the statistics.
        static let deleteRows = "delete from pathmirror.node where namespace_id = $1 and path = any($2)"
    }

    /// The beginning of a batch's first statement, which defines `head`. It moves namespace $1 by $8 from head $2, for
    /// the batch $3, if the entry at $2 belongs to the batch $10. If the row is no longer at ctid $9 or the head
    /// differs, the slower function `move_head` handles the case.
    static let movedHead = """
        moved as (
            update pathmirror.namespace
            set head = head + $8, stamped_at = greatest(clock_timestamp(), stamped_at), last_batch = $3
            where ctid = $9::text::tid and id = $1 and head = $2
                and ($10 is null or coalesce(last_batch, case when head = 0 then stream_key end, $10) = $10)
            returning ctid as place, stamped_at as stamp
        ), head as materialized (
            select place, stamp from moved
            union all
            select place, stamp from pathmirror.move_head($1, $2, $8, $9::text::tid, $3, $10)
            where not exists (select from moved)
        )
        """
    /// Selects the columns that `noteHead` reads.
    static let locationAndTime = "select place::text, (extract(epoch from stamp) * 1000)::bigint from head"

    /// Commits a batch: its log entries and its rows, in one transaction. The caller announces the commit with
    /// `announce`.
    ///
    /// Takes one round trip, or a few for a large batch, because COPY can't be pipelined. If the head is not the
    /// expected one, nothing is written.
    ///
    /// - Parameter isLocked: whether `lockHead` has already locked the head.
    /// - Throws: `isConnectionLost`: the outcome is unknown until `findBatch` returns it.
    public func commit(_ batch: Batch, isLocked: Bool = false) throws(LogStoreError) -> CommitOutcome {
        committedAt = nil
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try outcome(of: batch, isLocked) {
            try chooseCompression()
            // Under the lock, partitions exist for all but the largest batches. Partitions for those are created in the
            // batch's transaction.
            try ensurePartition(batch.namespace, upTo: batch.newHead)
            if goesByCopy(batch) {
                try commitByCopy(batch, isLocked)
            } else {
                let results = try postgres.pipeline(steps(batch, isLocked))
                try noteHead(batch.namespace, results[(isLocked ? 0 : 1) + Self.followStepCount(batch)])
            }
        }
    }

    func goesByCopy(_ batch: Batch) -> Bool { batch.rows.count > settings.copyThreshold }

    /// Runs `body`, which commits the batch, and returns the outcome.
    func outcome(of batch: Batch, _ isLocked: Bool, _ body: () throws -> Void) throws(LogStoreError) -> CommitOutcome {
        do {
            try body()
            return .committed
        } catch {
            // The transaction has failed, including the lock if there is one.
            if isLocked, postgres.isOpen { unlockHead() }
            forgetPartitions(batch.namespace)
            switch SchemaErrorCode(error) {
            // Under the lock, this error means another history.
            case .headMoved: return .headMoved
            case .ordersTaken: return .alreadyClaimed
            case .alreadyDone: return .alreadyDone
            case .following: return .following
            case .superseded: return .superseded
            default: throw LogStoreError(error)
            }
        }
    }

    /// Selects LZ4 for compressing values of more than 2 kB, if the server has it. PostgreSQL's default method takes a
    /// fourteenth of the server's time for an entry of ten texts of 200 bytes.
    func chooseCompression() throws(PostgresError) {
        guard !hasChosenCompression else { return }
        _ = try postgres.execute(SQL.compressByLZ4)
        hasChosenCompression = true
    }

    /// Begins a transaction, waits for the head's lock, and returns the head. When gateways contend, evaluating under
    /// the lock is faster than retrying. The transaction ends with `commit(isLocked:)` or `unlockHead`.
    public func lockHead(_ namespace: Int64, expectedHead: Int64) throws(LogStoreError) -> Int64 {
        var expectedHead = expectedHead
        while true {
            // A partition is created in its own transaction, before the lock is taken.
            try ensurePartition(namespace, upTo: expectedHead + room)
            let head = try locking(namespace) { () throws(PostgresError) in
                let results = try postgres.pipeline([
                    .prepared(SQL.begin), .prepared(SQL.lockHead, lockParameters(namespace)),
                ])
                try noteLocation(namespace, results[1], column: 1)
                return try results[1].int64(0, 0)
            }
            if partitionedTo[namespace, default: 0] > head + room / 2 { return head }
            // The head is far beyond the expected one: its partition may not exist.
            unlockHead()
            expectedHead = head
        }
    }

    /// Runs a transaction that takes the head's lock, and ends the transaction if that fails.
    ///
    /// - Throws: `unknownNamespace` if the namespace is gone: it was removed or moved, maybe while this waited for the lock.
    private func locking<Result>(
        _ namespace: Int64, _ body: () throws(PostgresError) -> Result
    ) throws(LogStoreError) -> Result {
        do throws(PostgresError) {
            return try body()
        } catch {
            // The transaction has begun, with or without the lock.
            unlockHead()
            throw LogStoreError(error, of: namespace)
        }
    }

    private func lockParameters(_ namespace: Int64) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        appendLocation(namespace, to: &parameters)
        return parameters
    }

    func appendLocation(_ namespace: Int64, to parameters: inout PostgresParameters) {
        if let location = headLocations[namespace] {
            parameters.appendText(location)
        } else {
            parameters.appendNull(.text)
        }
    }

    /// Locks the head in the open transaction.
    func lockHeadNow(_ namespace: Int64) throws(PostgresError) -> Int64 {
        let result = try postgres.executePrepared(SQL.lockHead, lockParameters(namespace))
        try noteLocation(namespace, result, column: 1)
        return try result.int64(0, 0)
    }

    /// Remembers the ctid of a namespace's row. Finding the row by its id visits every row version that an open
    /// snapshot may still see.
    func noteLocation(_ namespace: Int64, _ result: PostgresResult, column: Int) throws(PostgresError) {
        headLocations[namespace] = try result.bytes(0, column)
    }

    func noteHead(_ namespace: Int64, _ result: PostgresResult) throws(PostgresError) {
        try noteLocation(namespace, result, column: 0)
        committedAt = try result.int64(0, 1)
    }

    /// Releases the head's lock without writing.
    public func unlockHead() {
        if postgres.isOpen { try? postgres.executeScript("rollback") }
    }

    func steps(_ batch: Batch, _ isLocked: Bool) -> [PipelineStep] {
        var steps: [PipelineStep] = []
        steps.reserveCapacity(8)
        if !isLocked { steps.append(.prepared(SQL.begin)) }
        steps.append(contentsOf: followSteps(batch))
        if let one = stepOfOne(batch) {
            steps.append(one)
            steps.append(contentsOf: nameSteps(batch))
        } else {
            steps.append(.prepared(SQL.append, appendParameters(batch)))
            // The names come first, because the slow statements after them are useless if a write was done before.
            steps.append(contentsOf: nameSteps(batch))
            let (upserts, deletes) = rowParameters(batch)
            if let upserts { steps.append(.prepared(SQL.upsertRows, upserts)) }
            if let deletes { steps.append(.query(SQL.deleteRows, deletes)) }
        }
        steps.append(contentsOf: rulesSteps(batch))
        steps.append(contentsOf: claimSteps(batch))
        steps.append(.prepared(SQL.commit))
        return steps
    }

    func rulesSteps(_ batch: Batch) -> [PipelineStep] {
        batch.rules.map { rules in
            .query(
                "insert into pathmirror.rule (namespace_id, seq, source) values ($1, $2, $3)",
                [.int8(batch.namespace), .int8(rules.seq), .textBytes(rules.source)])
        }
    }

    func claimSteps(_ batch: Batch) -> [PipelineStep] {
        batch.claims.map { claimStep($0, of: batch.namespace) }
    }

    /// Commits a large batch: the same transaction as a small one, with its rows sent by COPY.
    private func commitByCopy(_ batch: Batch, _ isLocked: Bool) throws {
        do {
            if !isLocked { _ = try postgres.executePrepared(SQL.begin) }
            if batch.follow != nil { try postgres.pipeline(followSteps(batch)) }
            try noteHead(batch.namespace, try postgres.executePrepared(SQL.append, appendParameters(batch)))
            try postgres.pipeline(nameSteps(batch))
            // Existing rows are deleted first and inserted again by COPY, which can only insert.
            try deleteExisting(batch.namespace, batch.rows)
            try postgres.copyIn(RowCopy.sql) { writer in
                for (path, row) in batch.rows.rows where !row.value.isNull {
                    try RowCopy.write(
                        batch.namespace, StoredPath(path), JSONWriter.encode(row.value, form: .plain), row.version,
                        to: &writer)
                }
            }
            try postgres.pipeline(
                rulesSteps(batch) + claimSteps(batch) + [.prepared(SQL.commit)])
        } catch {
            if postgres.isOpen { try postgres.executeScript("rollback") }
            throw error
        }
    }

    func deleteExisting(_ namespace: Int64, _ changes: RowChanges) throws(PostgresError) {
        var gone = PostgresArray(of: .text)
        let flush = { (gone: inout PostgresArray) throws(PostgresError) in
            guard gone.count > 0 else { return }
            var parameters = PostgresParameters()
            parameters.appendInt8(namespace)
            parameters.append(gone)
            _ = try self.postgres.execute(SQL.deleteRows, parameters)
            gone.removeAll()
        }
        for (path, row) in changes.rows where row.existed {
            gone.appendText(StoredPath(path).key)
            if gone.count == 10_000 { try flush(&gone) }
        }
        try flush(&gone)
    }

    /// Waits until everything in the log is as durable as a commit must be. Entries that were read may exist only on
    /// the primary.
    public func confirmHead(_ namespace: Int64) throws(LogStoreError) {
        try locking(namespace) { () throws(PostgresError) in
            _ = try postgres.pipeline([
                .prepared(SQL.begin), .prepared(SQL.lockHead, lockParameters(namespace)), .prepared(SQL.commit),
            ])
        }
    }

    /// Waits for durability as `confirmHead` does, for a caller that holds the head's lock, and releases the lock.
    public func confirmLockedHead() throws(LogStoreError) {
        try translated { () throws(PostgresError) in _ = try postgres.executePrepared(SQL.commit) }
    }

    /// Whether the batch is in the log. Waits until a transaction that may still be writing the batch has ended.
    public func findBatch(_ batch: Batch) throws(LogStoreError) -> Bool {
        try locking(batch.namespace) { () throws(PostgresError) in
            let results = try postgres.pipeline([
                .prepared(SQL.begin),
                .prepared(SQL.lockHead, lockParameters(batch.namespace)),
                .query(
                    "select count(*) from pathmirror.log where namespace_id = $1 and seq = $2 and batch_id = $3",
                    [.int8(batch.namespace), .int8(batch.expectedHead + 1), .uuid(batch.id)]),
                .prepared(SQL.commit),
            ])
            return try results[2].int64(0, 0) > 0
        }
    }
}

/// Pipelined batches of one namespace: each is sent before the outcome of the previous ones is known.
///
/// Each batch expects the previous batch at the head, by its id. A batch is therefore never written unless the previous
/// one is, whether the connection lasts or not.
extension LogConnection {
    /// Whether `sendCommit` can send the batch: it takes one round trip, and its partition exists.
    public func canSend(_ batch: Batch) -> Bool {
        hasChosenCompression && postgres.isOpen && !goesByCopy(batch)
            && partitionedTo[batch.namespace, default: 0] > batch.newHead
    }

    /// Whether the answer to the first batch in flight has begun to arrive, or never will. Does not wait.
    public var isCommitAnswered: Bool { postgres.isPipelineAnswered }

    /// Whether everything was sent to the server. Does not wait.
    public var areCommitsOut: Bool { postgres.isPipelineOut }

    /// The number of batches in flight: sent and not received.
    public var commitsInFlight: Int { sent.count }

    /// Sends a batch after those in flight, and does not wait. `canSend` must be true.
    /// Until all batches are received, the connection can't be used for anything else.
    ///
    /// - Throws: `isConnectionLost`: nothing can be received any more, and the outcome of this batch and of those in
    ///   flight is unknown until `findBatch` returns it.
    public func sendCommit(_ batch: Batch) throws(LogStoreError) {
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        try translated { () throws(PostgresError) in try postgres.sendPipeline(steps(batch, false)) }
        sent.append(batch)
    }

    /// Waits until the answer to the first batch begins to arrive. Returns false if `wake` was called.
    ///
    /// - Throws: `isConnectionLost`, as `sendCommit`.
    public func awaitCommit(wake: WakeHandle) throws(LogStoreError) -> Bool {
        let usual = sent.first.map(bePatient(with:)) ?? postgres.statementTimeoutMilliseconds
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try translated { () throws(PostgresError) in try postgres.awaitPipeline(wake: wake) }
    }

    /// Waits for the outcome of the first batch in flight, as `commit` does. There must be one.
    /// If the batch was not committed, the batches after it are not either, and must be received before anything else
    /// is done.
    public func receiveCommit() throws(LogStoreError) -> CommitOutcome {
        committedAt = nil
        let batch = sent.removeFirst()
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try outcome(of: batch, false) {
            try noteHead(batch.namespace, try postgres.receivePipeline()[1 + Self.followStepCount(batch)])
        }
    }
}
