public import Tree

/// The entries after another one that wrote at, above or below some paths.
public struct LaterWrites: Sendable, Equatable {
    /// One of the entries.
    public struct Write: Sendable, Equatable {
        /// The entry, without its changes.
        public let entry: Entry
        /// The first of the paths that it wrote there, at most `maxPaths`.
        public fileprivate(set) var paths: [Path] = []
        public fileprivate(set) var pathCount = 0
    }

    static let maxWrites = 10
    static let maxPaths = 3

    /// The first entries, oldest first, at most `maxWrites`.
    public let first: [Write]
    public let count: Int

    public var isEmpty: Bool { count == 0 }

    /// Reads the log after `seq`, up to `last`.
    ///
    /// - Parameters:
    ///   - countsUndone: whether an entry that was undone counts, and the entry that undid it. Otherwise both are left out if
    ///     both come after `seq`.
    ///   - progress: receives the seq of the last entry of each page.
    public static func find(
        _ connection: LogConnection, _ namespace: Int64, of paths: PathSet, after seq: Int64, through last: Int64,
        countsUndone: Bool = false, progress: (Int64) throws -> Void = { _ in }
    ) throws -> LaterWrites {
        var undone = UndoneEntries(after: seq)
        var follower = LogFollower(namespace, at: LogPosition(seq: seq), through: last)
        while follower.position.seq < last {
            guard case .entries(let page) = try follower.next(on: connection) else {
                throw ReplayError.pruned(seq: follower.position.seq + 1)
            }
            for entry in page.map(\.entry) {
                let touches = try write(entry, paths, connection, namespace) != nil
                undone.add(entry.seq, touches: touches, undoes: countsUndone ? nil : entry.origin?.undoneSeq)
            }
            try progress(follower.position.seq)
        }
        let seqs = undone.remaining
        let first = try seqs.prefix(maxWrites).compactMap { seq in
            try connection.entry(namespace, seq).flatMap { try write($0.entry, paths, connection, namespace) }
        }
        return LaterWrites(first: first, count: seqs.count)
    }

    /// Returns the write of an entry at, above or below the paths; nil if there is none.
    private static func write(
        _ entry: Entry, _ paths: PathSet, _ connection: LogConnection, _ namespace: Int64
    ) throws -> Write? {
        let bare = Entry(
            seq: entry.seq, committedAt: entry.committedAt, operation: entry.operation, path: entry.path, changes: [],
            isBulk: entry.isBulk, origin: entry.origin)
        var write = Write(entry: bare)
        write.note(entry.changes, paths)
        // All changes of an entry are at or below its path.
        if entry.isBulk, paths.touches(entry.path) {
            try connection.forEachPart(namespace, of: entry.seq) { (part) throws(LogStoreError) in
                write.note(part, paths)
            }
        }
        return write.pathCount > 0 ? write : nil
    }
}

extension LaterWrites.Write {
    fileprivate mutating func note(_ changes: [Change], _ paths: PathSet) {
        for change in changes where paths.touches(change.path) {
            pathCount += 1
            if self.paths.count < LaterWrites.maxPaths { self.paths.append(change.path) }
        }
    }
}

/// Entries of which some undo others: finds those that still have an effect. A pure value.
struct UndoneEntries {
    private struct Item {
        let seq: Int64
        let touches: Bool
        let undoes: Int64?
    }

    private let start: Int64
    private var items: [Item] = []

    /// - Parameter start: the entries come after this seq.
    init(after start: Int64) { self.start = start }

    /// Adds the next entry. Entries that neither touch the paths nor undo another one take no memory.
    mutating func add(_ seq: Int64, touches: Bool, undoes undone: Int64?) {
        let undone = undone.flatMap { $0 > start ? $0 : nil }
        if touches || undone != nil { items.append(Item(seq: seq, touches: touches, undoes: undone)) }
    }

    /// The entries that touch the paths, without pairs of an entry and its undo. Oldest first.
    var remaining: [Int64] {
        var dead: Set<Int64> = []
        var alive: [Int64] = []
        for item in items.reversed() where !dead.contains(item.seq) {
            if let undone = item.undoes {
                dead.insert(undone)
            } else if item.touches {
                alive.append(item.seq)
            }
        }
        return alive.reversed()
    }
}
