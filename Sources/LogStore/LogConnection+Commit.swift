public import Postgres
import Tree

extension LogConnection {
    /// What became of a batch.
    public enum CommitOutcome: Sendable, Equatable {
        case committed
        /// Another gateway's entries are in the log behind the expected head. Nothing was written.
        case headMoved
        /// Another gateway has executed a session's operations that are in the batch. Nothing was written.
        case alreadyClaimed
        /// A write of a name that is in the batch has been done before. Nothing was written.
        case alreadyDone
    }

    private enum SQL {
        static let begin = PostgresStatement("begin", "begin")
        static let commit = PostgresStatement("commit", "commit")
        static let lockHead = PostgresStatement(
            "lock_head", "select head, place::text from pathmirror.lock_head($1, $2::text::tid)", types: [.int8, .text])
        // The entries' time is stamped under the head's lock, so that times follow the order of seqs.
        static let append = PostgresStatement(
            "append_log",
            """
            with \(LogConnection.movedHead), entries as (
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, origin)
                select $1, $2 + n, head.stamp, $3, op, path, changes, origin
                from head, unnest($4, $5, $6, $7) with ordinality as entry (op, path, changes, origin, n)
            )
            \(LogConnection.placeAndTime)
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
        // Not all servers are built with it.
        static let packByLZ4 = """
            select set_config(name, 'lz4', false) from pg_settings
            where name = 'default_toast_compression' and 'lz4' = any (enumvals)
            """
        // Not prepared: a plan that was made while the table was small, and kept, would go through all of it and compare
        // each row with each path. One that is made for the paths at hand doesn't, whatever the statistics say.
        static let deleteRows = "delete from pathmirror.node where namespace_id = $1 and path = any($2)"
    }

    /// `head`, from what a batch's first statement begins with: the namespace $1 moved by $8 from $2, by the batch $3, if the entry there is of the
    /// batch $10. Where its row is not at $9 any more, or the head is another, the function finds that out; calling it takes longer.
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
    /// What `noteHead` reads.
    static let placeAndTime = "select place::text, (extract(epoch from stamp) * 1000)::bigint from head"

    /// Commits a batch: its log entries and its rows, in one transaction. To be announced when it is committed (`announce`).
    ///
    /// One round trip (a large batch takes a few, as COPY can't be pipelined). When the head was not the expected one,
    /// nothing is written.
    ///
    /// - Parameter isLocked: the head's lock is held already, by `lockHead`.
    /// - Throws: `isConnectionLost`: the outcome is unknown until `findBatch` says it.
    public func commit(_ batch: Batch, isLocked: Bool = false) throws(LogStoreError) -> CommitOutcome {
        committedAt = nil
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try outcome(of: batch, isLocked) {
            try choosePacking()
            // Under the lock there is room for all but the largest batches: what is made for those is made with them.
            try ensurePartition(batch.namespace, upTo: batch.newHead)
            if goesByCopy(batch) {
                try commitByCopy(batch, isLocked)
            } else {
                let results = try postgres.pipeline(steps(batch, isLocked))
                try noteHead(batch.namespace, results[isLocked ? 0 : 1])
            }
        }
    }

    func goesByCopy(_ batch: Batch) -> Bool { batch.rows.count > settings.copyThreshold }

    /// What became of a batch, whose commit is `body`.
    func outcome(of batch: Batch, _ isLocked: Bool, _ body: () throws -> Void) throws(LogStoreError) -> CommitOutcome {
        do {
            try body()
            return .committed
        } catch {
            // The transaction has failed, under the lock too.
            if isLocked, postgres.isOpen { unlockHead() }
            forgetPartitions(batch.namespace)
            switch SchemaErrorCode(error) {
            // Under the lock it means another history.
            case .headMoved: return .headMoved
            case .ordersTaken: return .alreadyClaimed
            case .alreadyDone: return .alreadyDone
            default: throw LogStoreError(error)
            }
        }
    }

    /// PostgreSQL packs values of more than 2 kB. Its own way takes a fourteenth of its time for an entry of ten texts of 200 bytes.
    func choosePacking() throws(PostgresError) {
        guard !hasChosenPacking else { return }
        _ = try postgres.execute(SQL.packByLZ4)
        hasChosenPacking = true
    }

    /// Begins a transaction, waits for the head's lock, and returns the head: where gateways contend, evaluating under the
    /// lock beats guessing. Ends with `commit(isLocked:)` or `unlockHead`.
    public func lockHead(_ namespace: Int64, expectedHead: Int64) throws(LogStoreError) -> Int64 {
        var expectedHead = expectedHead
        while true {
            // A partition is made in a transaction of its own, before the lock is taken.
            try ensurePartition(namespace, upTo: expectedHead + room)
            let head: Int64
            do {
                let results = try postgres.pipeline([
                    .prepared(SQL.begin), .prepared(SQL.lockHead, lockParameters(namespace)),
                ])
                head = try results[1].int64(0, 0)
                try notePlace(namespace, results[1], column: 1)
            } catch {
                // The transaction has begun, whatever became of the lock.
                unlockHead()
                // It was removed, or moved, while this waited for the lock.
                if error.sqlState == "P0002" { throw .unknownNamespace("\(namespace)") }
                throw LogStoreError(error)
            }
            if partitionedTo[namespace, default: 0] > head + room / 2 { return head }
            // The head is far beyond what was expected: there may be nowhere to write to.
            unlockHead()
            expectedHead = head
        }
    }

    private func lockParameters(_ namespace: Int64) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        appendPlace(namespace, to: &parameters)
        return parameters
    }

    func appendPlace(_ namespace: Int64, to parameters: inout PostgresParameters) {
        if let place = places[namespace] { parameters.appendText(place) } else { parameters.appendNull(.text) }
    }

    /// Takes the head's lock in the transaction that is open.
    func lockHeadNow(_ namespace: Int64) throws(PostgresError) -> Int64 {
        let result = try postgres.executePrepared(SQL.lockHead, lockParameters(namespace))
        try notePlace(namespace, result, column: 1)
        return try result.int64(0, 0)
    }

    /// Remembers where a namespace's row is: found by its id, it is searched among all the versions that some snapshot may
    /// still see.
    func notePlace(_ namespace: Int64, _ result: PostgresResult, column: Int) throws(PostgresError) {
        places[namespace] = try result.bytes(0, column)
    }

    func noteHead(_ namespace: Int64, _ result: PostgresResult) throws(PostgresError) {
        try notePlace(namespace, result, column: 0)
        committedAt = try result.int64(0, 1)
    }

    /// Gives the head's lock back without having written.
    public func unlockHead() {
        if postgres.isOpen { try? postgres.executeScript("rollback") }
    }

    func steps(_ batch: Batch, _ isLocked: Bool) -> [PipelineStep] {
        var steps: [PipelineStep] = []
        steps.reserveCapacity(8)
        if !isLocked { steps.append(.prepared(SQL.begin)) }
        if let one = stepOfOne(batch) {
            steps.append(one)
            steps.append(contentsOf: nameSteps(batch))
        } else {
            steps.append(.prepared(SQL.append, appendParameters(batch)))
            // Before what takes long: where a write was done before, all of it is for nothing.
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

    /// A large batch: the same transaction, with its rows sent by COPY.
    private func commitByCopy(_ batch: Batch, _ isLocked: Bool) throws {
        do {
            if !isLocked { _ = try postgres.executePrepared(SQL.begin) }
            try noteHead(batch.namespace, try postgres.executePrepared(SQL.append, appendParameters(batch)))
            try postgres.pipeline(nameSteps(batch))
            // Rows that exist go first and come back by COPY, which can only add.
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

    /// Waits until everything that is in the log is as durable as a commit has to be: what has been read may be on the primary
    /// alone.
    public func confirmHead(_ namespace: Int64) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.pipeline([
                .prepared(SQL.begin), .prepared(SQL.lockHead, lockParameters(namespace)), .prepared(SQL.commit),
            ])
        }
    }

    /// The same for who holds the head's lock, and gives it back.
    public func confirmLockedHead() throws(LogStoreError) {
        try translated { () throws(PostgresError) in _ = try postgres.executePrepared(SQL.commit) }
    }

    /// Whether the batch is in the log. Waits until a transaction that may still be writing it has ended.
    public func findBatch(_ batch: Batch) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
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

/// Batches of one namespace that are sent one behind the other, before it is known what becomes of the first.
///
/// Each expects to be right behind the one before it, by its id. So none is ever written unless the one before it is, whether the
/// connection lasts or not.
extension LogConnection {
    /// Whether the batch can be sent by `sendCommit`: it takes one round trip, and there is somewhere for it to go.
    public func canSend(_ batch: Batch) -> Bool {
        hasChosenPacking && postgres.isOpen && !goesByCopy(batch)
            && partitionedTo[batch.namespace, default: 0] > batch.newHead
    }

    /// Whether an answer to the first of them has begun to arrive, or none will. Does not wait.
    public var isCommitAnswered: Bool { postgres.isPipelineAnswered }

    /// Whether all that was sent is on its way. Does not wait.
    public var areCommitsOut: Bool { postgres.isPipelineOut }

    /// How many batches were sent and not received.
    public var commitsUnderWay: Int { sent.count }

    /// Sends a batch that may be sent so (`canSend`), behind those that are under way, and does not wait. Until all of them are
    /// received, the connection is of no other use.
    ///
    /// - Throws: `isConnectionLost`: then nothing can be received any more, and the outcome of this one, and of those that are under way,
    ///   is unknown until `findBatch` says it.
    public func sendCommit(_ batch: Batch) throws(LogStoreError) {
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        try translated { () throws(PostgresError) in try postgres.sendPipeline(steps(batch, false)) }
        sent.append(batch)
    }

    /// Waits until what became of the first batch begins to arrive, or `wake` was called: false then.
    ///
    /// - Throws: `isConnectionLost`, as `sendCommit`.
    public func awaitCommit(wake: WakeHandle) throws(LogStoreError) -> Bool {
        let usual = sent.first.map(bePatient(with:)) ?? postgres.statementTimeoutMilliseconds
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try translated { () throws(PostgresError) in try postgres.awaitPipeline(wake: wake) }
    }

    /// Waits for what became of the first of the batches under way, of which there has to be one; as `commit`. Where it was not committed, nor will be those behind it,
    /// which have to be received before anything else is done.
    public func receiveCommit() throws(LogStoreError) -> CommitOutcome {
        committedAt = nil
        let batch = sent.removeFirst()
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try outcome(of: batch, false) { try noteHead(batch.namespace, try postgres.receivePipeline()[1]) }
    }
}
