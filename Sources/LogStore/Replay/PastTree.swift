import Postgres
public import Tree

extension Change {
    /// Returns the part of the change that affects a path: the change itself if it is at or below the path; if it is
    /// above, the path's part of its value; otherwise nil.
    public func narrowed(to path: Path) -> Change? {
        if path.contains(self.path) { return self }
        guard self.path.contains(path) else { return nil }
        return Change(path: path, value: value[path.relative(to: self.path)])
    }
}

/// A past tree of a namespace, rebuilt from a snapshot and the log after it. Can advance to later entries.
///
/// Memory holds the tree, or the requested part of it, and one page of the log. With a `TreeMemoryBudget`, the part that
/// exceeds its budget is paged out.
public struct PastTree {
    public private(set) var root: Node
    /// Tracks the memory of the tree. Nil if it is not tracked.
    private var meter: TreeMeter?
    /// The last entry that the tree contains.
    public private(set) var seq: Int64
    /// The seq of the snapshot at the start, or 0.
    public let startSeq: Int64
    public private(set) var entryCount: Int64 = 0

    private let connection: LogConnection
    private let namespace: Int64
    private let path: Path?
    /// The maximum number of entries per page.
    public var pageLimit = 5_000
    private var bulk = BulkRead()
    /// Called during the reading of bulk entries, because a single entry may have millions of leaves.
    private let reportBulk: (BulkRead) throws -> Void

    /// Starts with the newest snapshot at or before `seq`.
    ///
    /// - Parameters:
    ///   - path: the part of the tree to rebuild, or nil for the whole tree.
    ///   - room: the memory budget of the tree, or nil for no limit.
    public init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, for seq: Int64, within path: Path? = nil,
        in room: (any TreeMemoryBudget)? = nil
    ) throws {
        let start = try Self.start(connection, namespace, for: seq)
        try self.init(connection, start.namespace, from: start.snapshot?.seq, within: path, in: room)
    }

    /// Starts with `start`.
    ///
    /// - Parameter bulk: called at intervals with the amount read from the snapshot and from bulk entries.
    public init(
        _ connection: LogConnection, from start: Start, within path: Path? = nil,
        bulk reportBulk: @escaping (BulkRead) throws -> Void = { _ in }
    ) throws {
        try self.init(connection, start.namespace, from: start.snapshot?.seq, within: path, bulk: reportBulk)
    }

    /// The starting point for rebuilding a tree.
    public struct Start: Sendable {
        let namespace: Int64
        /// The newest snapshot at or before the requested position, or nil for the empty tree.
        public let snapshot: TreeSnapshot?

        /// The last entry that the starting point contains.
        public var seq: Int64 { snapshot?.seq ?? 0 }
    }

    /// Finds the starting point for rebuilding the tree at a position.
    public static func start(
        _ connection: LogConnection, _ namespace: NamespaceRecord, for seq: Int64
    ) throws -> Start {
        guard let record = try connection.namespace(id: namespace.id) else {
            throw LogStoreError.unknownNamespace(namespace.name)
        }
        guard seq <= record.head else { throw ReplayError.beyondHead(seq: seq, head: record.head) }
        let snapshots = try connection.snapshots(record.id)
        // The entries after a snapshot must still be in the log.
        let usable = snapshots.last { $0.seq == seq || ($0.seq < seq && $0.seq >= record.retainedFrom - 1) }
        guard usable != nil || record.retainedFrom == 1 else {
            let oldest = snapshots.first { $0.seq >= record.retainedFrom - 1 }?.seq ?? record.head
            throw ReplayError.notRetained(seq: seq, oldest: oldest)
        }
        return Start(namespace: record.id, snapshot: usable)
    }

    /// Returns the amount to read, apart from plain entries, for the tree at entry `last`.
    public static func bulk(_ connection: LogConnection, from start: Start, to last: Int64) throws -> BulkRead {
        let parts = try connection.postgres.execute(
            "select count(*) from pathmirror.log_part where namespace_id = $1 and seq > $2 and seq <= $3",
            [.int8(start.namespace), .int8(start.seq), .int8(last)]
        ).int64(0, 0)
        return BulkRead(snapshotLeaves: start.snapshot?.rowCount ?? 0, parts: parts)
    }

    /// Starts with a known tree.
    ///
    /// - Parameter meter: tracks the memory of the tree.
    public init(_ connection: LogConnection, _ namespace: Int64, root: Node, at seq: Int64, meter: TreeMeter? = nil) {
        self.meter = meter
        self.connection = connection
        self.namespace = namespace
        self.root = root
        self.seq = seq
        path = nil
        startSeq = seq
        reportBulk = { _ in }
    }

    /// Starts with a snapshot, or with the empty tree.
    init(
        _ connection: LogConnection, _ namespace: Int64, from snapshot: Int64?, within path: Path? = nil,
        in room: (any TreeMemoryBudget)? = nil, bulk reportBulk: @escaping (BulkRead) throws -> Void = { _ in }
    ) throws {
        let path = path.flatMap { $0.isRoot ? nil : $0 }
        self.connection = connection
        self.namespace = namespace
        self.path = path
        startSeq = snapshot ?? 0
        seq = startSeq
        self.reportBulk = reportBulk
        var read = BulkRead()
        var meter = room.map { TreeMeter($0, sharesBase: false) }
        root =
            try snapshot.map {
                try connection.loadSnapshot(namespace, at: $0, within: path, &meter) {
                    read.snapshotLeaves = $0
                    try reportBulk(read)
                }
            } ?? .null
        meter?.count(root)
        self.meter = meter
        bulk = read
    }

    /// Applies the entries up to `last`. Calls `progress` with the seq after each page.
    public mutating func advance(to last: Int64, progress: (Int64) throws -> Void = { _ in }) throws {
        var follower = LogFollower(namespace, at: LogPosition(seq: seq), through: last) { $0.pageEntries = pageLimit }
        while seq < last {
            guard case .entries(let page) = try follower.next(on: connection) else {
                throw ReplayError.pruned(seq: seq + 1)
            }
            for logged in page { try apply(logged.entry) }
            if let settled = meter?.settled(root) { root = settled }
            try progress(seq)
        }
    }

    /// Sets the seq to a later entry without applying the entries in between.
    mutating func skip(to seq: Int64) { self.seq = seq }

    /// Applies the next entry.
    public mutating func apply(_ entry: Entry) throws {
        if entry.isBulk {
            var application = BulkApplication(narrowed(entry.changes), to: root)
            root = .null
            try takeParts(of: entry.seq, &application)
            root = application.root
        } else {
            let changes = narrowed(entry.changes)
            root = root.replacing(changes)
            meter?.grew(by: changes)
        }
        seq = entry.seq
        entryCount += 1
    }

    private mutating func takeParts(of seq: Int64, _ application: inout BulkApplication) throws {
        var isFirstPass = true
        repeat {
            var number: Int32 = 0
            while let part = try connection.part(number, of: seq, namespace) {
                let changes = narrowed(part)
                application.take(changes)
                meter?.grew(by: changes)
                if var pager = meter?.pager(for: application.root) {
                    application.pageOut(with: &pager)
                    meter?.notePaging(application.root, pager)
                }
                number += 1
                // Later passes read parts again that have been counted.
                if isFirstPass { bulk.take(part.count) }
                try reportBulk(bulk)
            }
            isFirstPass = false
        } while application.beginNextPass()
    }

    private func narrowed(_ changes: [Change]) -> [Change] {
        guard let path else { return changes }
        return changes.compactMap { $0.narrowed(to: path) }
    }
}

/// The amount read for rebuilding a tree, apart from plain entries: leaves of a snapshot, and parts of bulk entries.
public struct BulkRead: Sendable, Equatable {
    public internal(set) var snapshotLeaves: Int64 = 0
    /// The number of parts, of some megabytes each.
    public internal(set) var parts: Int64 = 0
    /// The number of leaves in the parts.
    public internal(set) var partLeaves: Int64 = 0

    public init(snapshotLeaves: Int64 = 0, parts: Int64 = 0, partLeaves: Int64 = 0) {
        self.snapshotLeaves = snapshotLeaves
        self.parts = parts
        self.partLeaves = partLeaves
    }

    /// The number of leaves in the snapshot and the parts.
    public var leaves: Int64 { snapshotLeaves + partLeaves }

    /// The estimated cost, relative to a plain entry.
    public var work: Int64 { snapshotLeaves + parts * 50_000 }

    mutating func take(_ leaves: Int) {
        parts += 1
        partLeaves += Int64(leaves)
    }
}
