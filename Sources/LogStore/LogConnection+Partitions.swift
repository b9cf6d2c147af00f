import Postgres

extension LogConnection {
    /// Makes sure that seqs up to `seq` have a table to go to. A namespace's first entries go to tables that are there
    /// already (migration 011); beyond them, partitions of its own are made.
    public func ensurePartition(_ namespace: Int64, upTo seq: Int64) throws(LogStoreError) {
        guard partitionedTo[namespace, default: 0] <= seq else { return }
        try translated { () throws(PostgresError) in
            let result = try postgres.execute(
                "select pathmirror.ensure_log_partition($1, $2, $3)",
                [.int8(namespace), .int8(seq), .int8(settings.entriesPerPartition)])
            partitionedTo[namespace] = try result.int64(0, 0)
        }
    }

    /// How many entries there is to be room for when the head's lock is taken: more than batches have but for the
    /// largest, and so few that a namespace which is written to by several gateways does not get a partition before its
    /// time.
    var room: Int64 { max(1, min(settings.entriesPerPartition / 4, 16_384)) }

    /// What was made in a transaction that did not commit is not there.
    func forgetPartitions(_ namespace: Int64) { partitionedTo[namespace] = nil }

    /// Up to which seq each namespace's log has tables, read with its row.
    func notePartitions(_ namespace: Int64, to seq: Int64) {
        partitionedTo[namespace] = max(seq, partitionedTo[namespace, default: 0])
    }
}
