import Postgres

/// What of a namespace's log stays when it is shortened by itself.
public struct RetentionPolicy: Sendable, Equatable {
    /// How long, or how many, entries stay; nil where only the size decides.
    public var keeping: Pruning.Keeping?
    /// What of the log's partitions may stay, in bytes; older ones go, however young. Nil for no bound.
    public var maxBytes: Int64?
    /// How old the newest snapshot may get before another one is taken, in seconds; nil for `defaultSnapshotSeconds`.
    public var snapshotSeconds: Int64?

    public init(keeping: Pruning.Keeping?, maxBytes: Int64? = nil, snapshotSeconds: Int64? = nil) {
        self.keeping = keeping
        self.maxBytes = maxBytes
        self.snapshotSeconds = snapshotSeconds
    }

    /// The log is shortened up to a snapshot: four of them for the time that entries stay make at most a quarter of it too much.
    public var snapshotInterval: Int64 {
        if let snapshotSeconds { return snapshotSeconds }
        if case .seconds(let seconds) = keeping { return max(60, seconds / 4) }
        return 86_400
    }

    /// After how many entries another snapshot is taken, however young the newest; nil where only time counts.
    ///
    /// - Parameter retained: how many entries the log has.
    public func snapshotEntries(retained: Int64) -> Int64? {
        if case .entries(let count) = keeping { return max(1_000, count / 4) }
        // As large as a partition of such a log.
        return maxBytes == nil ? nil : max(1_000_000, retained / 64)
    }
}

/// What is to be done about a namespace's log now.
public struct RetentionStep: Sendable, Equatable {
    /// A snapshot of the tree as it is now is due.
    public var takesSnapshot = false
    /// The entry that the log is to begin with, right behind a snapshot; nil where nothing goes.
    public var newFrom: Int64?

    public init(takesSnapshot: Bool = false, newFrom: Int64? = nil) {
        self.takesSnapshot = takesSnapshot
        self.newFrom = newFrom
    }

    /// Decides. Pure.
    ///
    /// - Parameters:
    ///   - wantedFrom: the oldest entry that the policy keeps.
    ///   - snapshots: those that are there, oldest first.
    ///   - now: in milliseconds since 1970, by the clock that snapshots are dated by.
    public init(
        _ policy: RetentionPolicy, head: Int64, retainedFrom: Int64, wantedFrom: Int64, snapshots: [TreeSnapshot],
        now: Int64
    ) {
        let newest = snapshots.last
        let entriesBehind = head - (newest?.seq ?? 0)
        if entriesBehind > 0 {
            let isOld = newest.map { now - $0.createdAt >= policy.snapshotInterval * 1_000 } ?? true
            let isFarBack = policy.snapshotEntries(retained: head - retainedFrom).map { entriesBehind >= $0 } ?? false
            takesSnapshot = isOld || isFarBack
        }
        newFrom = snapshots.last { $0.seq + 1 <= wantedFrom && $0.seq + 1 > retainedFrom }.map { $0.seq + 1 }
    }
}

extension Pruning {
    /// The oldest entry that a policy keeps: what is before it may go.
    ///
    /// - Throws: `ReplayError` where PostgreSQL's clock is not to be trusted, and entries go by their age.
    public func wantedFrom(_ policy: RetentionPolicy) throws -> Int64 {
        guard let record = try connection.namespace(id: namespace) else {
            throw LogStoreError.unknownNamespace("\(namespace)")
        }
        var wanted = record.retainedFrom
        if let keeping = policy.keeping { wanted = max(wanted, try firstKept(keeping, record, false)) }
        if let bytes = policy.maxBytes { wanted = max(wanted, try firstWithin(bytes)) }
        return wanted
    }

    /// The first entry of the newest partitions that have that many bytes together. Whole partitions count, and the tables that
    /// namespaces share don't.
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
