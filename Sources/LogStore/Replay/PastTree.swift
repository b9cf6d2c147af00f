public import Tree

extension Change {
    /// What of the change concerns a path: itself where it is at or below the path; where it is above, the path's part of
    /// its value; nil elsewhere.
    public func narrowed(to path: Path) -> Change? {
        if path.contains(self.path) { return self }
        guard self.path.contains(path) else { return nil }
        return Change(path: path, value: value[path.relative(to: self.path)])
    }
}

/// A namespace's tree as it was, rebuilt from a snapshot and the log behind it; can be moved on to later entries.
///
/// Memory holds the tree, or the part of it that is asked for, and one page of the log.
public struct PastTree {
    public private(set) var root: Node
    /// The entry that the tree is after.
    public private(set) var seq: Int64
    /// The snapshot that it began with, or 0.
    public let startSeq: Int64
    public private(set) var entryCount: Int64 = 0

    private let connection: LogConnection
    private let namespace: Int64
    private let path: Path?
    /// Entries that are read at once.
    public var pageLimit = 5_000

    /// Begins with the newest tree that is kept whole, at or before `seq`.
    ///
    /// - Parameter path: what is needed of the tree; nil for all of it.
    public init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, for seq: Int64, within path: Path? = nil
    ) throws {
        guard let record = try connection.namespace(id: namespace.id) else {
            throw LogStoreError.unknownNamespace(namespace.name)
        }
        guard seq <= record.head else { throw ReplayError.beyondHead(seq: seq, head: record.head) }
        let snapshots = try connection.snapshots(record.id)
        // What follows a snapshot must still be in the log.
        let usable = snapshots.last { $0.seq == seq || ($0.seq < seq && $0.seq >= record.retainedFrom - 1) }
        guard usable != nil || record.retainedFrom == 1 else {
            let oldest = snapshots.first { $0.seq >= record.retainedFrom - 1 }?.seq ?? record.head
            throw ReplayError.notRetained(seq: seq, oldest: oldest)
        }
        try self.init(connection, record.id, from: usable?.seq, within: path)
    }

    /// Begins with a tree that somebody knows.
    public init(_ connection: LogConnection, _ namespace: Int64, root: Node, at seq: Int64) {
        self.connection = connection
        self.namespace = namespace
        self.root = root
        self.seq = seq
        path = nil
        startSeq = seq
    }

    /// Begins with a snapshot, or with the empty tree.
    init(_ connection: LogConnection, _ namespace: Int64, from snapshot: Int64?, within path: Path? = nil) throws {
        let path = path.flatMap { $0.isRoot ? nil : $0 }
        self.connection = connection
        self.namespace = namespace
        self.path = path
        startSeq = snapshot ?? 0
        seq = startSeq
        root = try snapshot.map { try connection.loadSnapshot(namespace, at: $0, within: path) } ?? .null
    }

    /// Applies the entries up to `last`. `progress` is told of the seq now and then.
    public mutating func advance(to last: Int64, progress: (Int64) throws -> Void = { _ in }) throws {
        var follower = LogFollower(namespace, at: LogCursor(seq: seq), through: last) { $0.pageEntries = pageLimit }
        while seq < last {
            guard case .entries(let page) = try follower.next(on: connection) else {
                throw ReplayError.pruned(seq: seq + 1)
            }
            for logged in page { try apply(logged.entry) }
            try progress(seq)
        }
    }

    /// Takes the tree for one of a later entry, whatever there was between.
    mutating func skip(to seq: Int64) { self.seq = seq }

    /// Applies the next entry.
    public mutating func apply(_ entry: Entry) throws {
        if entry.isBulk {
            var application = BulkApplication(narrowed(entry.changes), to: root)
            root = .null
            repeat {
                try connection.forEachPart(namespace, of: entry.seq) { (part) throws(LogStoreError) in
                    application.take(narrowed(part))
                }
            } while application.goesOn()
            root = application.root
        } else {
            for change in narrowed(entry.changes) { root = root.replacing(change.path, with: change.value) }
        }
        seq = entry.seq
        entryCount += 1
    }

    private func narrowed(_ changes: [Change]) -> [Change] {
        guard let path else { return changes }
        return changes.compactMap { $0.narrowed(to: path) }
    }
}
