import Postgres
import Runtime

extension LogConnection {
    /// Creates the partitions for seqs up to `seq` if they are missing. The first entries of all namespaces share
    /// existing tables (migration 011); later entries need partitions of their namespace.
    public func ensurePartition(_ namespace: Int64, upTo seq: Int64) throws(LogStoreError) {
        guard partitionedTo[namespace, default: 0] <= seq else { return }
        do throws(PostgresError) {
            let result = try postgres.execute(
                "select pathmirror.ensure_log_partition($1, $2, $3)",
                [.int8(namespace), .int8(seq), .int8(settings.entriesPerPartition)])
            partitionedTo[namespace] = try result.int64(0, 0)
        } catch {
            throw LogStoreError(error, of: namespace)
        }
    }

    /// The number of seqs for which partitions must exist when the head is locked. It exceeds all but the largest
    /// batches. It is small enough that a namespace to which several gateways write does not get its partition too
    /// early.
    var room: Int64 { max(1, min(settings.entriesPerPartition / 4, 16_384)) }

    /// Forgets the known partitions, because those created in a transaction that failed do not exist.
    func forgetPartitions(_ namespace: Int64) { partitionedTo[namespace] = nil }

    /// Remembers the seq up to which a namespace's log has partitions, as read from the namespace's row.
    func notePartitions(_ namespace: Int64, to seq: Int64) {
        partitionedTo[namespace] = max(seq, partitionedTo[namespace, default: 0])
    }

    // MARK: Dropping

    /// The time for retrying to drop a partition that is being read, and the pauses between two attempts in seconds.
    private static let dropPatience: Milliseconds = 600_000
    private static let firstPause = 0.2
    private static let longestPause = 4.0

    /// Drops one of the log's partitions. Dropping waits for all readers of the log, and all other readers and writers
    /// then wait for it. Each attempt therefore gives up after 0.1 seconds, and is repeated later.
    /// Requires the schema's owner.
    private func dropPartition(_ name: String) throws(LogStoreError) {
        let deadline = Clock.monotonicMilliseconds + Self.dropPatience
        var pause = Self.firstPause
        while true {
            do throws(PostgresError) {
                return try tryToDrop(name)
            } catch {
                let failure = LogStoreError.database(error)
                guard postgres.isOpen, failure.isLockConflict, Clock.monotonicMilliseconds < deadline else {
                    throw failure
                }
            }
            // The pause runs in the database, so it ends with the command.
            try translated { () throws(PostgresError) in
                _ = try postgres.execute("select pg_sleep(\(pause))")
            }
            pause = min(Self.longestPause, pause * 2)
        }
    }

    private func tryToDrop(_ name: String) throws(PostgresError) {
        try postgres.executeScript("begin isolation level read committed; set local lock_timeout = '100ms'")
        do throws(PostgresError) {
            // An earlier prune may have been interrupted while detaching.
            let begun = try postgres.execute(
                """
                select parent.relname from pg_inherits join pg_class on pg_class.oid = inhrelid
                    join pg_class as parent on parent.oid = inhparent
                where pg_class.relname = $1 and pg_class.relnamespace = 'pathmirror'::regnamespace and inhdetachpending
                """, [.text(name)])
            if begun.rowCount == 1 {
                let parent = quotedIdentifier(try begun.string(0, 0))
                try postgres.executeScript(
                    "alter table pathmirror.\(parent) detach partition pathmirror.\(quotedIdentifier(name)) finalize")
            }
            try postgres.executeScript("drop table if exists pathmirror.\(quotedIdentifier(name))")
            try postgres.executeScript("commit")
        } catch {
            if postgres.isOpen { try? postgres.executeScript("rollback") }
            throw error
        }
    }

    /// Drops all partitions of a namespace that nothing writes to any more.
    func dropPartitions(of namespace: Int64) throws(LogStoreError) {
        _ = try dropPartitions("relname ~ ('^log_' || $1 || '_[0-9]+$')", "\(namespace)")
    }

    /// Drops the partitions of removed namespaces whose removal was interrupted.
    ///
    /// - Parameter name: the former name of the namespaces.
    /// - Returns: whether there were any partitions.
    func dropPartitions(ofRemoved name: String) throws(LogStoreError) -> Bool {
        try dropPartitions(
            """
            relname ~ '^log_[0-9]+_[0-9]+$' and exists (
                select from pathmirror.former_namespace as former
                where former.name = $1 and former.moved_to is null and former.id = split_part(relname, '_', 2)::bigint
                    and not exists (select from pathmirror.namespace as known where known.id = former.id))
            """, name)
    }

    private func dropPartitions(_ condition: String, _ value: String) throws(LogStoreError) -> Bool {
        let names = try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select relname from pg_class
                where relnamespace = 'pathmirror'::regnamespace and relkind = 'r' and \(condition) order by 1
                """, [.text(value)])
            var names: [String] = []
            for row in 0..<rows.rowCount { names.append(try rows.string(row, 0)) }
            return names
        }
        for name in names { try dropPartition(name) }
        return !names.isEmpty
    }
}
