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

    // MARK: Dropping

    /// How often a partition is tried again that somebody else lets go of, too.
    private static let dropAttempts = 5

    /// Drops one of the log's partitions, and keeps nobody from reading or writing the log meanwhile: it waits until those have ended who
    /// read it when it began, however long that takes. Cut short at any point it goes on when it is called again. Takes the schema's owner.
    func dropPartition(_ name: String) throws(LogStoreError) {
        for attempt in 1... {
            do throws(PostgresError) {
                guard let state = try attachment(of: name) else { return }
                if let parent = state.parent {
                    try endOthers(of: parent, but: name)
                    try postgres.executeScript(
                        "alter table pathmirror.\(quotedIdentifier(parent)) detach partition pathmirror.\(quotedIdentifier(name)) "
                            + (state.isBegun ? "finalize" : "concurrently"))
                }
                try postgres.executeScript("drop table if exists pathmirror.\(quotedIdentifier(name))")
                return
            } catch {
                // Somebody else may have ended what was begun here.
                guard postgres.isOpen, attempt < Self.dropAttempts, error.sqlState.map(Self.isOvertaken) == true else {
                    throw .database(error)
                }
            }
        }
    }

    /// Whether a table was not what it had been a moment before: not there, no partition, or being detached.
    private static func isOvertaken(_ state: String) -> Bool { ["42P01", "42P17", "42809", "55000"].contains(state) }

    /// Of which table a partition is one, and whether it is being detached. No parent: it has been; nil: it isn't there.
    private func attachment(of name: String) throws(PostgresError) -> (parent: String?, isBegun: Bool)? {
        let rows = try postgres.execute(
            """
            select parent.relname, coalesce(inhdetachpending, false)
            from pg_class left join pg_inherits on inhrelid = pg_class.oid left join pg_class as parent on parent.oid = inhparent
            where pg_class.relname = $1 and pg_class.relnamespace = 'pathmirror'::regnamespace
            """, [.text(name)])
        guard rows.rowCount == 1 else { return nil }
        return (rows.isNull(0, 0) ? nil : try rows.string(0, 0), try rows.bool(0, 1))
    }

    /// A table lets go of one partition at a time: what was begun there for any namespace and not ended is ended.
    private func endOthers(of parent: String, but name: String) throws(PostgresError) {
        let begun = try postgres.execute(
            """
            select inhrelid::regclass::text from pg_inherits join pg_class as parent on parent.oid = inhparent
            where parent.relname = $1 and parent.relnamespace = 'pathmirror'::regnamespace and inhdetachpending
                and inhrelid <> ('pathmirror.' || quote_ident($2))::regclass
            """, [.text(parent), .text(name)])
        for row in 0..<begun.rowCount {
            try postgres.executeScript(
                "alter table pathmirror.\(quotedIdentifier(parent)) detach partition \(try begun.string(row, 0)) finalize"
            )
        }
    }

    /// Drops all partitions that a namespace's log has of its own: nobody writes to it any more.
    func dropPartitions(of namespace: Int64) throws(LogStoreError) {
        _ = try dropPartitions("relname ~ ('^log_' || $1 || '_[0-9]+$')", "\(namespace)")
    }

    /// Drops the partitions of namespaces that were removed for good: somebody was cut short.
    ///
    /// - Parameter name: of namespaces that had this name.
    /// - Returns: whether there were any.
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
