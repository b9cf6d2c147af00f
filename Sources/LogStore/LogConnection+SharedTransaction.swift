import Postgres
public import Runtime
import Tree

/// Shared transactions: batches of several namespaces in one transaction. Each batch has the same effect as alone, and
/// either all are committed or none.
extension LogConnection {
    private enum SQL {
        // The statements are the same as in LogConnection+Commit: a connection prepares each name once.
        static let begin = PostgresStatement("begin", "begin")
        static let commit = PostgresStatement("commit", "commit")
        // The setting applies to this transaction only, which holds locks that others may wait for while it waits
        // itself.
        static let impatient = PostgresStatement(
            "joint_patience", "select set_config('lock_timeout', $1, true)", types: [.text])
        // The heads are moved in the order of the arrays, because a function scan reads from the beginning.
        static let append = PostgresStatement(
            "append_log_joint",
            """
            with heads as materialized (
                select member.n, member.id, member.batch, moved.place, moved.stamp
                from unnest($1, $2, $3, $4, $5, $6) with ordinality
                    as member (id, expected, entries, place, batch, expected_batch, n)
                cross join lateral pathmirror.move_head(
                    member.id, member.expected, member.entries, member.place::tid, member.batch, member.expected_batch
                ) as moved
            ), entries as (
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, origin)
                select heads.id, entry.seq, heads.stamp, heads.batch, entry.op, entry.path, entry.changes, entry.origin
                from unnest($7, $8, $9, $10, $11::json[], $12::json[])
                    as entry (member, seq, op, path, changes, origin)
                join heads on heads.n = entry.member
            )
            select place::text, (extract(epoch from stamp) * 1000)::bigint from heads order by n
            """,
            types: [
                .int8Array, .int8Array, .int8Array, .textArray, .uuidArray, .uuidArray, .int8Array, .int8Array,
                .textArray, .textArray, .textArray, .textArray,
            ])
        static let upsertRows = PostgresStatement(
            "upsert_rows_joint",
            """
            insert into pathmirror.node (namespace_id, path, rest, value, version)
            select id, path, rest, value, version from unnest($1, $2, $3, $4::json[], $5) as row (id, path, rest, value, version)
            on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
            """, types: [.int8Array, .textArray, .textArray, .textArray, .int8Array])
        static let deleteRows = "delete from pathmirror.node where namespace_id = $1 and path = any($2)"
        static let partitions = PostgresStatement(
            "partitions_of", "select id, partitioned_to from pathmirror.namespace where id = any($1)",
            types: [.int8Array])
        static let freeHeads = PostgresStatement(
            "free_heads", "select id from pathmirror.namespace where id = any($1) for update skip locked",
            types: [.int8Array])
    }

    /// Returns the namespaces for whose batches a partition is missing. `commit` creates missing partitions.
    public func withoutPartition(_ batches: [Batch]) throws(LogStoreError) -> Set<Int64> {
        var unknown = PostgresArray(of: .int8)
        for batch in batches where partitionedTo[batch.namespace] == nil { unknown.appendInt8(batch.namespace) }
        if unknown.count > 0 {
            try translated { () throws(PostgresError) in
                let rows = try postgres.executePrepared(SQL.partitions, [.array(unknown)])
                for row in 0..<rows.rowCount {
                    notePartitions(try rows.int64(row, 0), to: try rows.int64(row, 1))
                }
            }
        }
        return Set(batches.filter { partitionedTo[$0.namespace, default: 0] <= $0.newHead }.map(\.namespace))
    }

    /// Returns those of the namespaces whose heads another transaction has locked now. Does not wait.
    public func lockedHeads(_ namespaces: [Int64]) throws(LogStoreError) -> Set<Int64> {
        var ids = PostgresArray(of: .int8)
        for namespace in namespaces { ids.appendInt8(namespace) }
        do throws(PostgresError) {
            let free = try postgres.pipeline([
                .prepared(SQL.begin), .prepared(SQL.freeHeads, [.array(ids)]), .query("rollback"),
            ])[1]
            var locked = Set(namespaces)
            for row in 0..<free.rowCount { locked.remove(try free.int64(row, 0)) }
            return locked
        } catch {
            unlockHead()
            throw .database(error)
        }
    }

    /// Commits batches of several namespaces in one transaction and one round trip. Returns the commit time of each
    /// batch, in milliseconds since 1970.
    ///
    /// - Parameters:
    ///   - batches: one batch per namespace, ordered by namespace id, all with existing partitions. All gateways lock
    ///     heads in this order.
    ///   - lockMilliseconds: the maximum wait for one lock.
    /// - Throws: `isConnectionLost`: the outcome is unknown until `findBatch` returns it, and the same for all batches.
    ///   On any other error nothing was written.
    public func commitJointly(
        _ batches: [Batch], lockMilliseconds: Milliseconds
    ) throws(LogStoreError) -> [Milliseconds] {
        let bytes = batches.reduce(0) { $0 + $1.records.reduce(0) { $0 + $1.changes.count } }
        let usual = bePatient(withBytes: bytes, rows: batches.reduce(0) { $0 + $1.rows.count })
        defer { postgres.statementTimeoutMilliseconds = usual }
        do throws(PostgresError) {
            try chooseCompression()
            let heads = try postgres.pipeline(steps(batches, lockMilliseconds))[2]
            var times: [Milliseconds] = []
            for (row, batch) in batches.enumerated() {
                headLocations[batch.namespace] = try heads.bytes(row, 0)
                times.append(try heads.int64(row, 1))
            }
            return times
        } catch {
            for batch in batches { forgetPartitions(batch.namespace) }
            throw .database(error)
        }
    }

    private func steps(_ batches: [Batch], _ lockMilliseconds: Milliseconds) -> [PipelineStep] {
        var steps: [PipelineStep] = [
            .prepared(SQL.begin), .prepared(SQL.impatient, [.text("\(lockMilliseconds)")]),
            .prepared(SQL.append, entries(of: batches)),
        ]
        for batch in batches { steps.append(contentsOf: nameSteps(batch)) }
        steps.append(contentsOf: rowSteps(batches))
        for batch in batches { steps.append(contentsOf: rulesSteps(batch) + claimSteps(batch)) }
        steps.append(.prepared(SQL.commit))
        return steps
    }

    private func entries(of batches: [Batch]) -> PostgresParameters {
        var ids = PostgresArray(of: .int8)
        var heads = PostgresArray(of: .int8)
        var counts = PostgresArray(of: .int8)
        var known = PostgresArray(of: .text)
        var own = PostgresArray(of: .uuid)
        var expected = PostgresArray(of: .uuid)
        var members = PostgresArray(of: .int8)
        var seqs = PostgresArray(of: .int8)
        var operations = PostgresArray(of: .text)
        var paths = PostgresArray(of: .text)
        var changes = PostgresArray(of: .text)
        var origins = PostgresArray(of: .text)
        for (number, batch) in batches.enumerated() {
            ids.appendInt8(batch.namespace)
            heads.appendInt8(batch.expectedHead)
            counts.appendInt8(Int64(batch.records.count))
            if let location = headLocations[batch.namespace] { known.appendText(location) } else { known.appendNull() }
            own.appendUUID(batch.id)
            if let before = batch.expectedBatch { expected.appendUUID(before) } else { expected.appendNull() }
            for (index, record) in batch.records.enumerated() {
                members.appendInt8(Int64(number) + 1)
                seqs.appendInt8(batch.expectedHead + Int64(index) + 1)
                operations.appendText(record.operation.rawValue)
                paths.appendText(record.path.description)
                changes.appendText(record.changes)
                if let origin = record.origin { origins.appendText(origin.json) } else { origins.appendNull() }
            }
        }
        var parameters = PostgresParameters()
        for array in [ids, heads, counts, known, own, expected, members, seqs, operations, paths, changes, origins] {
            parameters.append(array)
        }
        return parameters
    }

    private func rowSteps(_ batches: [Batch]) -> [PipelineStep] {
        var ids = PostgresArray(of: .int8)
        var paths = PostgresArray(of: .text)
        var rests = PostgresArray(of: .text)
        var values = PostgresArray(of: .text)
        var versions = PostgresArray(of: .int8)
        var deletes: [PipelineStep] = []
        for batch in batches {
            var gone = PostgresArray(of: .text)
            for (path, row) in batch.rows.rows {
                let stored = StoredPath(path)
                if row.value.isNull {
                    gone.appendText(stored.key)
                    continue
                }
                ids.appendInt8(batch.namespace)
                paths.appendText(stored.key)
                if let rest = stored.rest { rests.appendText(rest) } else { rests.appendNull() }
                values.appendText(JSONWriter.encode(row.value, form: .plain))
                versions.appendInt8(row.version)
            }
            if gone.count > 0 {
                var parameters = PostgresParameters()
                parameters.appendInt8(batch.namespace)
                parameters.append(gone)
                deletes.append(.query(SQL.deleteRows, parameters))
            }
        }
        guard ids.count > 0 else { return deletes }
        var parameters = PostgresParameters()
        for array in [ids, paths, rests, values, versions] { parameters.append(array) }
        return [.prepared(SQL.upsertRows, parameters)] + deletes
    }
}
