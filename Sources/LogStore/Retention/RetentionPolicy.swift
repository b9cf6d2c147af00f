import Postgres

/// The entries of a namespace's log that automatic retention keeps.
public struct RetentionPolicy: Sendable, Equatable {
    /// The age or number of entries to keep, or nil if only the size decides.
    public var keeping: Pruning.Keeping?
    /// The maximum size of the log's partitions in bytes. Older partitions are removed regardless of their age.
    /// Nil for no limit.
    public var maxBytes: Int64?
    /// The age of the newest snapshot at which another one is taken, in seconds. Nil for the default in
    /// `snapshotInterval`.
    public var snapshotSeconds: Int64?

    public init(keeping: Pruning.Keeping?, maxBytes: Int64? = nil, snapshotSeconds: Int64? = nil) {
        self.keeping = keeping
        self.maxBytes = maxBytes
        self.snapshotSeconds = snapshotSeconds
    }

    /// The interval of snapshots in seconds. The log is shortened up to a snapshot, so with four snapshots in the
    /// retention time, the log is at most a quarter too long.
    public var snapshotInterval: Int64 {
        if let snapshotSeconds { return snapshotSeconds }
        if case .seconds(let seconds) = keeping { return max(60, seconds / 4) }
        return 86_400
    }

    /// Returns the number of entries after which another snapshot is taken, regardless of the age of the newest one.
    /// Returns nil if only time counts.
    ///
    /// - Parameter retained: the number of entries in the log.
    public func snapshotEntries(retained: Int64) -> Int64? {
        if case .entries(let count) = keeping { return max(1_000, count / 4) }
        // The size of a partition of such a log.
        return maxBytes == nil ? nil : max(1_000_000, retained / 64)
    }
}

/// The next actions on a namespace's log.
public struct RetentionStep: Sendable, Equatable {
    /// Whether a snapshot of the current tree is due.
    public var takesSnapshot = false
    /// The new first entry of the log, directly after a snapshot. Nil if nothing is to be removed.
    public var newFrom: Int64?

    public init(takesSnapshot: Bool = false, newFrom: Int64? = nil) {
        self.takesSnapshot = takesSnapshot
        self.newFrom = newFrom
    }

    /// Decides the actions. Pure.
    ///
    /// - Parameters:
    ///   - wantedFrom: the oldest entry that the policy keeps.
    ///   - snapshots: the existing snapshots, oldest first.
    ///   - now: milliseconds since 1970, by the clock that stamps snapshots.
    public init(
        _ policy: RetentionPolicy, head: Int64, retainedFrom: Int64, wantedFrom: Int64, snapshots: [TreeSnapshot],
        now: Int64
    ) {
        let newest = snapshots.last
        let entriesSince = head - (newest?.seq ?? 0)
        if entriesSince > 0 {
            let isOld = newest.map { now - $0.createdAt >= policy.snapshotInterval * 1_000 } ?? true
            let isFarBack = policy.snapshotEntries(retained: head - retainedFrom).map { entriesSince >= $0 } ?? false
            takesSnapshot = isOld || isFarBack
        }
        newFrom = snapshots.last { $0.seq + 1 <= wantedFrom && $0.seq + 1 > retainedFrom }.map { $0.seq + 1 }
    }
}

extension Pruning {
    /// Returns the oldest entry that a policy keeps.
    ///
    /// - Throws: `ReplayError` if entries are removed by age and PostgreSQL's clock can't be trusted.
    public func wantedFrom(_ policy: RetentionPolicy) throws -> Int64 {
        guard let record = try connection.namespace(id: namespace) else {
            throw LogStoreError.unknownNamespace("\(namespace)")
        }
        var wanted = record.retainedFrom
        if let keeping = policy.keeping { wanted = max(wanted, try firstKept(keeping, record, false)) }
        if let bytes = policy.maxBytes { wanted = max(wanted, try firstWithin(bytes)) }
        return wanted
    }

    /// Returns the first entry of the newest partitions that together reach the given size. Counts whole partitions,
    /// without the tables that namespaces share.
    private func firstWithin(_ bytes: Int64) throws -> Int64 {
        let rows = try connection.postgres.execute(
            """
            select coalesce(max(first), 0) from (
                select first, sum(size) over (order by first desc) as size from (
                    select split_part(relname, '_', 3)::bigint as first, pg_total_relation_size(oid) as size from pg_class
                    where relnamespace = 'pathmirror'::regnamespace and relkind = 'r'
                        and relname ~ ('^log_' || $1::text || '_[0-9]+$')
                ) as mine
            ) as newest where size >= $2
            """, [.int8(namespace), .int8(bytes)])
        return try rows.int64(0, 0)
    }
}
