import Postgres
import Runtime

/// Shortens a namespace's log: stores the tree before the first retained entry as a snapshot, and drops the entries
/// before.
public struct Pruning {
    /// The entries to keep.
    public enum Keeping: Sendable, Equatable {
        case entries(Int64)
        case seconds(Int64)
        /// All entries from this seq on.
        case from(Int64)

        /// Parses a duration of whole seconds, such as `30d` or `12h`, or a count such as `30 entries`. A bare number
        /// is rejected.
        public init?(_ text: String) {
            if let seconds = TimeSpan.seconds(text) {
                guard seconds < Self.endlessSeconds else { return nil }
                self = .seconds(seconds)
            } else {
                let words = text.split(separator: " ", omittingEmptySubsequences: false)
                guard words.count == 2, words[1] == "entries" || (words[0] == "1" && words[1] == "entry"),
                    words[0].utf8.allSatisfy({ (0x30...0x39).contains($0) }), let count = Int64(words[0])
                else { return nil }
                self = .entries(count)
            }
        }

        /// A million days. PostgreSQL subtracts the duration from the current time, and its times begin 2.4 million
        /// days ago.
        private static let endlessSeconds: Int64 = 1_000_000 * 86_400
    }

    /// A reader that still needs entries.
    public struct Cursor: Sendable, Equatable {
        public let kind: String
        public let name: String
        public let seq: Int64
    }

    /// The steps of a prune.
    public struct Plan: Sendable, Equatable {
        /// The oldest entry in the log now, and afterwards.
        public let oldFrom: Int64
        public let newFrom: Int64
        /// The requested oldest entry. It differs from `newFrom` if cursors or the size of partitions keep more.
        public let wantedFrom: Int64
        public let head: Int64
        /// Cursors that keep entries of the requested range. If forced, cursors that lose entries.
        public let holders: [Cursor]
        /// Feeds that lose undelivered entries: if forced, or if their definition allows it at the end of their
        /// retention.
        public let skipping: [Cursor]
        /// Partitions to drop as a whole.
        public let partitions: [String]
        /// The number of entries to delete one by one.
        public let deletedEntries: Int64
        /// The entry before which entries are deleted one by one. Entries between it and `newFrom` stay in a partition
        /// until that is dropped as a whole.
        let deletesBefore: Int64
        public var isEmpty: Bool { newFrom == oldFrom && partitions.isEmpty && deletedEntries == 0 }
    }

    let connection: LogConnection
    let namespace: Int64
    private let machineClock: () -> Int64
    /// The maximum number of entries to delete from a partition that stays. Deleting more would bloat it.
    public static let mostDeleted: Int64 = 100_000
    private static let deletedAtOnce: Int64 = 10_000
    /// The kind of feeds in `log_cursor`.
    private static let feedKind = "feed"

    /// - Parameter machineClock: returns this machine's time, in milliseconds since 1970. Nil for the real clock.
    public init(
        _ connection: LogConnection, _ namespace: NamespaceRecord,
        machineClock: (() -> Int64)? = nil
    ) {
        self.connection = connection
        self.namespace = namespace.id
        self.machineClock = machineClock ?? { Clock.unixMilliseconds }
    }

    /// Plans a prune.
    ///
    /// - Parameters:
    ///   - force: whether to ignore cursors.
    ///   - trustsClock: whether to prune by age even if `ClockReading` finds PostgreSQL's clock wrong.
    ///   - leavesPartitions: whether removed entries may stay in a partition with retained entries until it is dropped
    ///     as a whole. Otherwise the log is kept from the beginning of the partition if too many entries would be
    ///     deleted one by one.
    public func plan(
        _ keeping: Keeping, force: Bool, trustsClock: Bool = false, leavesPartitions: Bool = false
    ) throws -> Plan {
        guard let record = try connection.namespace(id: namespace) else {
            throw LogStoreError.unknownNamespace("\(namespace)")
        }
        let wanted = max(record.retainedFrom, try firstKept(keeping, record, trustsClock))
        let late = try cursors().filter { $0.seq + 1 < wanted }
        let givingUp = force ? [] : try connection.feedsThatGiveUp(namespace)
        let holders = late.filter { $0.kind != Self.feedKind || !givingUp.contains($0.name) }
        var from = wanted
        if !force, let oldest = holders.map(\.seq).min() { from = max(record.retainedFrom, oldest + 1) }
        let sharedTo = try sharedTo()
        let all = try partitions()
        var kept: Int64?
        if !leavesPartitions, let last = all.first(where: { $0.first < from && from < $0.end }) {
            // Rows before the beginning of the partition are in other tables. Some rows before the retained log may
            // still exist.
            let oldest = try connection.postgres.execute(
                "select coalesce(min(seq), $3) from pathmirror.log where namespace_id = $1 and seq >= $2 and seq < $3",
                [.int8(namespace), .int8(last.first), .int8(from)])
            let count = from - (try oldest.int64(0, 0))
            if count > Self.mostDeleted {
                from = max(record.retainedFrom, last.first)
                kept = last.first
            }
        }
        let whole = all.filter { $0.end <= from }
        let rest = all.first { $0.first < from && from < $0.end }
        var deleted: Int64 = 0
        if !leavesPartitions {
            // From the tables that namespaces share, all entries are deleted regardless of their number, which is a
            // small part of these tables.
            deleted += try entries(from: 0, before: min(from, sharedTo))
            if let rest, kept == nil { deleted += try entries(from: rest.first, before: from) }
        }
        let skipping = late.filter { $0.kind == Self.feedKind && $0.seq + 1 < from }
        return Plan(
            oldFrom: record.retainedFrom, newFrom: from, wantedFrom: wanted, head: record.head, holders: holders,
            skipping: skipping, partitions: whole.map(\.name), deletedEntries: deleted,
            deletesBefore: kept ?? from)
    }

    /// Returns the size of the partitions that a plan drops whole, in bytes. Entries that go one by one are not counted.
    public func bytes(of plan: Plan) throws -> Int64 {
        guard !plan.partitions.isEmpty else { return 0 }
        var names = PostgresArray(of: .text)
        for name in plan.partitions { names.appendText(name) }
        return try connection.postgres.execute(
            """
            select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
            where relnamespace = 'pathmirror'::regnamespace and relname = any($1)
            """, [.array(names)]
        ).int64(0, 0)
    }

    /// Executes a plan. If the process is killed, the log is complete from `retained_from` on, and the next run completes the
    /// plan.
    ///
    /// - Parameter drop: drops the entries before the plan's first entry, after `retained_from` has moved. Nil drops
    ///   them as the schema's owner.
    public func run(
        _ plan: Plan, progress: (String) -> Void = { _ in }, dropping drop: (() throws -> Void)? = nil
    ) throws {
        guard let record = try connection.namespace(id: namespace) else {
            throw LogStoreError.unknownNamespace("\(namespace)")
        }
        let needed = plan.newFrom - 1
        if plan.newFrom > record.retainedFrom {
            if try !connection.snapshots(namespace).contains(where: { $0.seq == needed }) {
                progress("snapshot of the tree at seq \(needed)")
                var tree = try PastTree(connection, record, for: needed)
                try tree.advance(to: needed)
                try connection.saveSnapshot(namespace, at: needed, tree.root, for: .prune)
            }
            let end = LogPosition(seq: needed, batch: try connection.batches(namespace, at: [needed])[needed])
            // Feeds are moved before the entries are removed, because a feed with missing entries can't continue.
            for feed in plan.skipping {
                let skipped = try connection.skipFeed(namespace, named: feed.name, to: end)
                if let skipped { progress("feed \(feed.name) skips \(skipped) entries that it has not delivered") }
            }
            _ = try connection.postgres.execute(
                """
                update pathmirror.namespace set retained_from = $2, pruned_batch = $3
                where id = $1 and retained_from < $2 and exists (
                    select from pathmirror.snapshot where namespace_id = $1 and seq = $2 - 1)
                """, [.int8(namespace), .int8(plan.newFrom), end.batch.map { .uuid($0) } ?? .null(.uuid)])
        }
        if let drop { try drop() } else { try dropAsOwner(plan, progress) }
        for snapshot in try connection.snapshots(namespace)
        where snapshot.seq < needed && snapshot.purpose.goesWithTheLog {
            _ = try connection.dropSnapshot(namespace, at: snapshot.seq)
        }
        try connection.dropIdleFeedSnapshots(namespace, but: max(needed, record.retainedFrom - 1))
    }

    // MARK: Looking

    func firstKept(
        _ keeping: Keeping, _ record: NamespaceRecord, _ trustsClock: Bool
    ) throws -> Int64 {
        switch keeping {
        case .from(let seq): return min(seq, record.head + 1)
        case .entries(let count): return max(1, record.head - count + 1)
        case .seconds(let seconds):
            let clock = try connection.clockReading(record, machineClock)
            if !trustsClock { try clock.check() }
            let time = clock.database - seconds * 1_000_000
            // The time is before the log, so no entry is too old.
            return try connection.lastSeq(record, committedBy: time).map { $0 + 1 } ?? record.retainedFrom
        }
    }

    /// Returns all readers that still need entries, with the last seq that each has finished.
    public func cursors() throws -> [Cursor] {
        let rows = try connection.postgres.execute(
            "select kind, name, seq from pathmirror.log_cursor where namespace_id = $1 order by seq, kind, name",
            [.int8(namespace)])
        return try (0..<rows.rowCount).map {
            Cursor(kind: try rows.string($0, 0), name: try rows.string($0, 1), seq: try rows.int64($0, 2))
        }
    }

    private struct Partition {
        let name: String
        let first: Int64
        let end: Int64
    }

    /// Returns the seq below which entries are in the tables that namespaces share, or 0 if the namespace is older than
    /// these tables.
    private func sharedTo() throws -> Int64 {
        try connection.postgres.execute(
            "select shared_to from pathmirror.namespace where id = $1", [.int8(namespace)]
        ).int64(0, 0)
    }

    private func partitions() throws -> [Partition] {
        // Names are log_<namespace>_<first seq>. Detached partitions are left from an interrupted prune.
        let rows = try connection.postgres.execute(
            """
            select relname, split_part(relname, '_', 3)::bigint as first from pg_class
            where relnamespace = 'pathmirror'::regnamespace and relkind = 'r' and relname ~ ('^log_' || $1::text || '_[0-9]+$')
            order by first
            """, [.int8(namespace)])
        let end = try connection.postgres.execute(
            "select partitioned_to from pathmirror.namespace where id = $1", [.int8(namespace)]
        ).int64(0, 0)
        return try (0..<rows.rowCount).map { row in
            Partition(
                name: try rows.string(row, 0), first: try rows.int64(row, 1),
                end: row + 1 < rows.rowCount ? try rows.int64(row + 1, 1) : end)
        }
    }

    private func entries(from first: Int64, before end: Int64) throws -> Int64 {
        try connection.postgres.execute(
            "select count(*) from pathmirror.log where namespace_id = $1 and seq >= $2 and seq < $3",
            [.int8(namespace), .int8(first), .int8(end)]
        ).int64(0, 0)
    }

    // MARK: Doing

    private func dropAsOwner(_ plan: Plan, _ progress: (String) -> Void) throws {
        for name in plan.partitions {
            progress("partition \(name)")
            // Gateways can change `partitioned_to`, from which the end of the last partition is taken, so the
            // partition's rows are checked.
            let kept = try connection.postgres.execute(
                "select from pathmirror.\(name) where namespace_id = $1 and seq >= $2 limit 1",
                [.int8(namespace), .int8(plan.newFrom)])
            guard kept.rowCount == 0 else {
                throw LogStoreError.corrupt(
                    "the partition \(name) has entries after seq \(plan.newFrom - 1), where the partition ends according to the namespace's row"
                )
            }
            try drop(name)
        }
        progress("\(plan.deletedEntries) entries")
        try deleteRows(of: "log", before: plan.deletesBefore)
        try deleteRows(of: "log_part", before: plan.deletesBefore)
    }

    private func drop(_ name: String) throws {
        let state = try connection.postgres.execute(
            """
            select inhdetachpending, parent.relname
            from pg_inherits join pg_class on pg_class.oid = inhrelid join pg_class as parent on parent.oid = inhparent
            where pg_class.relname = $1 and pg_class.relnamespace = 'pathmirror'::regnamespace
            """, [.text(name)])
        if state.rowCount == 1 {
            try endOthers(of: try state.string(0, 1), but: name)
            // Detaching concurrently does not block readers and writers.
            let word = try state.bool(0, 0) ? "finalize" : "concurrently"
            try connection.postgres.executeScript(
                "alter table pathmirror.\(try state.string(0, 1)) detach partition pathmirror.\(name) \(word)")
        }
        try connection.postgres.executeScript("drop table pathmirror.\(name)")
    }

    /// Finishes detaching other partitions of the table that interrupted prunes of any namespace have begun, because a
    /// table can detach only one partition at a time.
    private func endOthers(of parent: String, but name: String) throws {
        let begun = try connection.postgres.execute(
            """
            select inhrelid::regclass::text from pg_inherits join pg_class as parent on parent.oid = inhparent
            where parent.relname = $1 and parent.relnamespace = 'pathmirror'::regnamespace and inhdetachpending
                and inhrelid <> ('pathmirror.' || quote_ident($2))::regclass
            """, [.text(parent), .text(name)])
        for row in 0..<begun.rowCount {
            try connection.postgres.executeScript(
                "alter table pathmirror.\(parent) detach partition \(try begun.string(row, 0)) finalize")
        }
    }

    /// Deletes a namespace's rows below a seq, a limited number per transaction.
    private func deleteRows(of table: String, before seq: Int64) throws {
        while true {
            let oldest = try connection.postgres.execute(
                "select min(seq) from pathmirror.\(table) where namespace_id = $1 and seq < $2",
                [.int8(namespace), .int8(seq)])
            if oldest.isNull(0, 0) { return }
            let end = min(seq, try oldest.int64(0, 0) + Self.deletedAtOnce)
            // Both deletions are one transaction. The lock excludes `look_through_log`, which then starts over on the
            // remaining rows.
            try connection.postgres.executeScript(
                """
                lock table pathmirror.retention_look in share row exclusive mode;
                delete from pathmirror.retention_look where namespace_id = \(namespace);
                delete from pathmirror.\(table) where namespace_id = \(namespace) and seq < \(end)
                """)
        }
    }
}

/// The clock values that decide whether entries may be pruned by age. All in microseconds since 1970.
struct ClockReading: Equatable {
    let database: Int64
    let machine: Int64
    /// The commit time of the newest entry by PostgreSQL's clock, or nil if the log is empty.
    let newestEntry: Int64?

    /// The maximum difference between the clocks that network delays can explain.
    static let mostApart: Int64 = 5 * 60 * 1_000_000

    /// Throws if PostgreSQL's clock can't be trusted, because too many or too few entries would be removed.
    func check() throws(ReplayError) {
        if let newestEntry, database < newestEntry {
            throw .clockBehindLog(seconds: (newestEntry - database) / 1_000_000)
        }
        let ahead = database - machine
        if ahead.magnitude > UInt64(Self.mostApart) { throw .clocksDiffer(aheadSeconds: ahead / 1_000_000) }
    }
}

extension LogConnection {
    func clockReading(
        _ namespace: NamespaceRecord, _ machineClock: () -> Int64
    ) throws -> ClockReading {
        // The entry is read first, so it was committed before the clock is read.
        let newest = try postgres.execute(
            """
            select (extract(epoch from committed_at) * 1000000)::bigint from pathmirror.log
            where namespace_id = $1 and seq = $2
            """, [.int8(namespace.id), .int8(namespace.head)])
        let database = try postgres.execute(
            "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
        ).int64(0, 0)
        return ClockReading(
            database: database, machine: machineClock() * 1_000,
            newestEntry: newest.rowCount == 1 ? try newest.int64(0, 0) : nil)
    }
}
