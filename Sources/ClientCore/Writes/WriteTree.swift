public import Tree

/// The client's writes that the server has not answered, by path.
///
/// They lie over the server's data as layers: at each path the latest write decides, and later writes below it change
/// its result. The value of a path depends only on the writes at, above and below it, so writes elsewhere cost nothing.
///
///     write 1: set /a to {b: 1, c: 2}        write 2: set /a/b to 5        write 3: remove /d
///
///     root                                   newest 3
///     |- a     entries: 1 = {b: 1, c: 2}     newest 2
///     |  `- b  entries: 2 = 5                newest 2
///     `- d     entries: 3 = null             newest 3
///
///     server: {a: {c: 9, e: 7}, d: true}     client: {a: {b: 5, c: 2}}
///
/// - `add` puts one entry at the path of an overwrite, and one at each path of a merge. `remove` removes the entries of
///   an answered write.
/// - `value(at:over:)` goes from the root to the path. The latest entry at a point replaces the value that was found
///   above; entries of later writes below the path are then laid over it. `newest` lets the search skip points whose
///   writes are all older.
/// - An increment is computed from the value below it. Without that value the entry is relative and invisible, and
///   waits until `countWaiting` finds the value.
/// - An entry with `isVisible` false belongs to a transaction without local events. Transactions and increments read
///   it; listeners do not.
/// - `replayed` applies the writes one after the other if a priority is involved: a node that loses its last child
///   loses its priority, even if a later write adds a child.
final class WriteTree {
    /// One value of a write, at the path that it applies to.
    struct Entry {
        let id: WriteID
        var value: Node
        /// False for a transaction that is not applied locally.
        let isVisible: Bool
        /// Whether the value depends on a base value that is not known yet.
        var isRelative: Bool
    }

    /// The writes at and below one path.
    final class Point {
        /// The entries in the order of their numbers.
        var entries: [Entry] = []
        var children: [Key: Point] = [:]
        /// No write at or below this point has a greater number.
        var newest = WriteID(rawValue: .min)
    }

    /// The data of a write that is needed to remove it.
    struct Record {
        /// Absolute paths, none above another.
        var changes: [Change]
        let isVisible: Bool
        let path: Path
    }

    let root = Point()
    private(set) var records: [WriteID: Record] = [:]
    /// Writes with increments whose base value is not known yet.
    private var waiting: Set<WriteID> = []

    /// Returns the server's value that covers a path, and the depth of the value's own path.
    typealias Known = (Path) -> (node: Node, depth: Int)?

    var hasWaiting: Bool { !waiting.isEmpty }

    /// - Parameter known: returns the server's value that covers a path; see `value`.
    func add(
        _ id: WriteID, at path: Path, _ content: PendingWrite.Content, isVisible: Bool, over known: Known
    ) -> Record {
        var changes: [Change]
        switch content {
        case .overwrite(let node): changes = [Change(path: path, value: node)]
        case .merge(let parts): changes = parts.map { Change(path: path.appending($0.path), value: $0.value) }
        }
        for (index, change) in changes.enumerated() {
            let counted = counted(change, before: id, over: known)
            if counted == nil { waiting.insert(id) } else { changes[index] = counted ?? change }
            let point = makePoint(at: change.path, id)
            let entry = Entry(
                id: id, value: changes[index].value, isVisible: isVisible, isRelative: counted == nil)
            point.entries.insert(entry, at: point.index(of: id))
        }
        let record = Record(changes: changes, isVisible: isVisible, path: path)
        records[id] = record
        return record
    }

    private func makePoint(at path: Path, _ id: WriteID) -> Point {
        var point = root
        point.newest = max(point.newest, id)
        for key in path.keys {
            let below = point.children[key] ?? Point()
            point.children[key] = below
            point = below
            point.newest = max(point.newest, id)
        }
        return point
    }

    /// Returns the change with computed increments, or nil while their base value is unknown.
    ///
    /// Increments are computed once: data that the server sends before its answer may already contain the write.
    private func counted(_ change: Change, before id: WriteID, over known: Known) -> Change? {
        guard change.value.hasIncrement else { return change }
        let filter = WriteFilter(before: id, includesHidden: true)
        guard let existing = value(at: change.path, over: known(change.path), filter) else { return nil }
        return Change(path: change.path, value: change.value.resolved(existing: existing, timestamp: 0))
    }

    /// Computes the waiting increments whose base value is known by now. Returns their paths.
    func countWaiting(over known: Known) -> [Path] {
        var paths: [Path] = []
        for id in waiting.sorted() {
            guard var record = records[id] else { continue }
            var isWaiting = false
            for (index, change) in record.changes.enumerated() where change.value.hasIncrement {
                guard let counted = counted(change, before: id, over: known), let point = point(at: change.path) else {
                    isWaiting = true
                    continue
                }
                record.changes[index] = counted
                let index = point.index(of: id)
                point.entries[index].value = counted.value
                point.entries[index].isRelative = false
                paths.append(change.path)
            }
            records[id] = record
            if !isWaiting { waiting.remove(id) }
        }
        return paths
    }

    /// Removes a write; returns nil if there is none with this number.
    func remove(_ id: WriteID) -> Record? {
        guard let record = records.removeValue(forKey: id) else { return nil }
        waiting.remove(id)
        for change in record.changes { Self.remove(id, change.path.keys[...], from: root) }
        return record
    }

    private static func remove(_ id: WriteID, _ keys: ArraySlice<Key>, from point: Point) {
        guard let key = keys.first else {
            let index = point.index(of: id)
            if index < point.entries.count, point.entries[index].id == id { point.entries.remove(at: index) }
            return
        }
        guard let below = point.children[key] else { return }
        remove(id, keys.dropFirst(), from: below)
        if below.entries.isEmpty, below.children.isEmpty { point.children[key] = nil }
    }

    /// Returns the point of a path, or nil if there are no writes at or below it.
    func point(at path: Path) -> Point? {
        var point = root
        for key in path.keys {
            guard let below = point.children[key] else { return nil }
            point = below
        }
        return point
    }

    /// Whether there are writes at, above or below a path.
    func concern(_ path: Path) -> Bool {
        var point = root
        for key in path.keys {
            if !point.entries.isEmpty { return true }
            guard let below = point.children[key] else { return false }
            point = below
        }
        return !point.entries.isEmpty || !point.children.isEmpty
    }

    /// Whether a later visible write decides the whole value of the path, independently of this one. A removal does
    /// not: the result then depends on whether the node had children for a moment.
    func isShadowed(_ id: WriteID, at path: Path) -> Bool {
        var point = root
        var depth = 0
        while true {
            if point.entries.contains(where: { $0.id > id && $0.isVisible && !$0.isRelative && !$0.value.isNull }) {
                return true
            }
            guard depth < path.depth, let below = point.children[path[depth]] else { return false }
            point = below
            depth += 1
        }
    }
}

extension WriteTree.Point {
    /// Returns the index of the write among the entries, or the index at which to insert it.
    func index(of id: WriteID) -> Int {
        // Nearly always the last.
        guard let last = entries.last, last.id >= id else { return entries.count }
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// Priorities of nodes that pending writes empty and fill again.
extension WriteTree {
    /// Applies the writes below a point one after another to the value below them. Returns nil if that gives the same
    /// result as laying each over its path, which is nearly always the case.
    ///
    /// A node that loses its last child loses its priority, even if a later write gives it another child. The result
    /// then depends on the order of the writes, and not only on the latest write at each path.
    static func replayed(_ base: Node, _ after: WriteID, _ point: Point, _ filter: WriteFilter) -> Node? {
        guard !base.priority.isNull || point.children[.priority] != nil else { return nil }
        var steps: [WriteID: [Change]] = [:]
        var removes = false
        collect(point, Path(), after, filter) { id, path, value in
            steps[id, default: []].append(Change(path: path, value: value))
            if value.isNull, !path.namesPriority { removes = true }
        }
        // A priority that was written before there was a value has no effect.
        guard removes || point.children[.priority] != nil, steps.count > 1 else { return nil }
        var node = base
        for id in steps.keys.sorted() {
            node = node.replacing(ApplicationOrder.sorted(steps[id] ?? []))
        }
        return node
    }

    private static func collect(
        _ point: Point, _ path: Path, _ after: WriteID, _ filter: WriteFilter,
        _ body: (WriteID, Path, Node) -> Void
    ) {
        for (key, below) in point.children where below.newest > after {
            let childPath = path.appending(key)
            for entry in below.entries where entry.id > after && filter.admits(entry) {
                body(entry.id, childPath, entry.value)
            }
            collect(below, childPath, after, filter, body)
        }
    }
}

/// The number of a write of this client. Later writes have greater numbers, across restarts too.
public struct WriteID: Sendable, Hashable, Comparable {
    public let rawValue: Int64

    public init(rawValue: Int64) { self.rawValue = rawValue }

    public static func < (left: WriteID, right: WriteID) -> Bool { left.rawValue < right.rawValue }
}

/// A write that the server has not answered yet. It may contain server values.
public struct PendingWrite: Sendable, Equatable {
    public enum Content: Sendable, Equatable {
        case overwrite(Node)
        /// Values below the path, with relative paths, none above another.
        case merge([Change])
    }

    public let id: WriteID
    public let path: Path
    public let content: Content
    /// The name by which the server recognizes the write; nil for a write from an older version of this library.
    public let name: WriteName?

    public init(id: WriteID, path: Path, content: Content, name: WriteName? = nil) {
        self.name = name
        self.id = id
        self.path = path
        self.content = content
    }
}

extension Node {
    /// Returns the value with resolved timestamps and unchanged increments. Shares the parts without timestamps.
    func withTimestamps(_ timestamp: Int64) -> Node {
        switch self {
        case .serverValue(let value): value.kind == .timestamp ? .int(timestamp) : self
        case .prioritized(let leaf):
            leaf.value.withTimestamps(timestamp).withPriority(leaf.priority.withTimestamps(timestamp))
        case .branch(let branch):
            branch.children.reduce(withPriority(branch.priority.withTimestamps(timestamp))) { node, entry in
                let child = entry.node.withTimestamps(timestamp)
                return child.isIdentical(to: entry.node) ? node : node.replacingChild(entry.key, with: child)
            }
        default: self
        }
    }
}
