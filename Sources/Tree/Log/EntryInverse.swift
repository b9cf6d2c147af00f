/// The changes that take one entry of the log back: applied to the tree after the entry, they make the tree before it.
public struct EntryInverse: Sendable {
    /// The changes in the order of their application. No path lies at or below another. Empty if the entry changed nothing.
    public let changes: [Change]
    /// The paths at, above and below which no later entry may have written.
    public let watched: [Path]
    /// The rows that the changes add, change and remove.
    public let summary: RowSummary

    /// An entry in parts that changed more paths is reversed as a whole, at its own path.
    static let maxPaths = 5_000

    /// - Parameters:
    ///   - old: the tree before the entry.
    ///   - new: the tree after the entry.
    public init(of entry: Entry, from old: Node, to new: Node) {
        var reversal = Reversal(old: old, new: new)
        for path in Self.paths(of: entry, old, new) { reversal.add(path) }
        let (changes, watched) = reversal.result
        self.changes = changes
        self.watched = watched
        summary = RowSummary(from: new, to: new.replacing(changes))
    }

    /// The path of the only change, or the deepest path that is above all changes.
    public var path: Path {
        guard var common = changes.first?.path else { return .root }
        for change in changes {
            let depth = zip(common.keys, change.path.keys).prefix { $0 == $1 }.count
            common = common.prefix(depth)
        }
        return common
    }

    /// The operation of an entry with these changes.
    public var operation: Operation {
        guard changes.count == 1, let change = changes.first else { return .update }
        return change.value.isNull ? .remove : .set
    }

    /// The number of rows that the changes write.
    public var writtenRows: Int { changes.reduce(0) { $0 + $1.value.rowCount } }

    private static func paths(of entry: Entry, _ old: Node, _ new: Node) -> [Path] {
        guard entry.isBulk else { return entry.changes.map(\.path) }
        // An import replaces all that was at its path.
        if entry.changes.contains(where: { $0.path.contains(entry.path) }) { return [entry.path] }
        var found: [Path] = []
        let isWhole = findChanged(old[entry.path], new[entry.path], entry.path, &found)
        return isWhole ? found : [entry.path]
    }

    /// Collects the topmost paths at which two trees differ. Returns false if there are too many.
    private static func findChanged(_ old: Node, _ new: Node, _ path: Path, _ found: inout [Path]) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard case .branch(let first) = old, case .branch(let second) = new else {
            if old != new { found.append(path) }
            return found.count <= maxPaths
        }
        if first.priority != second.priority { found.append(path.appending(.priority)) }
        for entry in first.children {
            let isWhole = findChanged(entry.node, new.child(entry.key), path.appending(entry.key), &found)
            if !isWhole { return false }
        }
        for entry in second.children where old.child(entry.key).isNull { found.append(path.appending(entry.key)) }
        return found.count <= maxPaths
    }
}

/// Collects the changes of an inverse, path by path.
private struct Reversal {
    let old: Node
    let new: Node
    private var values: [Path: Node] = [:]
    private var watched: Set<Path> = []

    init(old: Node, new: Node) {
        self.old = old
        self.new = new
    }

    /// Adds the change that reverses the entry's change at a path.
    mutating func add(_ path: Path) {
        guard old[path] != new[path] else { return }
        // The entry made a branch of a leaf: all below it goes with the branch.
        let target = leafAbove(path) ?? path
        values[target] = old[target]
        watched.insert(target)
        for depth in 0..<target.depth {
            let ancestor = target.prefix(depth)
            let (was, isNow) = (old[ancestor], new[ancestor])
            guard was.isNull != isNow.isNull else { continue }
            let priority = ancestor.appending(.priority)
            // A node that lost its last child lost its priority, too. One that the entry made may have been given a priority since.
            if !was.priority.isNull { values[priority] = was.priority }
            watched.insert(priority)
        }
    }

    var result: (changes: [Change], watched: [Path]) {
        let covered = { (path: Path) in (0..<path.depth).contains { values[path.prefix($0)] != nil } }
        let changes = values.filter { !covered($0.key) }.map { Change(path: $0.key, value: $0.value) }
            .sorted { $0.path.keys.lexicographicallyPrecedes($1.path.keys) }
        return (ApplicationOrder.sorted(changes), watched.sorted { $0.keys.lexicographicallyPrecedes($1.keys) })
    }

    /// The path of the leaf that was above a path and is no leaf now.
    private func leafAbove(_ path: Path) -> Path? {
        let depth = path.namesPriority ? path.depth - 1 : path.depth
        return (0..<depth).lazy.map(path.prefix).first { old[$0].isLeaf && !new[$0].isLeaf }
    }
}

extension Entry {
    /// The path of the top-level node below which all changes of the entry are; nil if they are not below a single one.
    public var topLevelPath: Path? {
        let paths = isBulk ? changes.map(\.path) + [path] : changes.map(\.path)
        guard let key = paths.first?.keys.first, key != .priority else { return nil }
        return paths.allSatisfy { $0.keys.first == key } ? Path([key]) : nil
    }
}
