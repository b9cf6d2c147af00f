import Tree

/// A record that an entry has changed.
struct RecordDifference: Sendable {
    let path: Path
    /// The record before and after the entry. At least one of them is not null, and they differ.
    let before: Node
    let after: Node
}

/// Enumerates the records of a pattern that differ between two versions of a tree. The order depends only on the versions and on
/// the written paths. The enumerator is a value: it can stop anywhere and resume there.
struct RecordEnumerator {
    /// A path whose changed children are being enumerated.
    private struct Frame {
        let path: Path
        /// The number of pattern parts that lead to the children.
        let depth: Int
        var olds: ChildMap.Iterator?
        var news: ChildMap.Iterator?
        var old: (key: Key, node: Node)?
        var new: (key: Key, node: Node)?

        mutating func advanceOld() { old = olds?.next().map { ($0.key, $0.node) } }
        mutating func advanceNew() { new = news?.next().map { ($0.key, $0.node) } }
    }

    private let pattern: PathPattern
    private let before: Node
    private let after: Node
    /// The paths that were written, in order. The paths before `next` are done.
    private let paths: [Path]
    private var next = 0
    private var frames: [Frame] = []

    /// - Parameter paths: The paths that the entry wrote, or nil if unknown.
    init(_ pattern: PathPattern, before: Node, after: Node, paths: [Path]?) {
        self.pattern = pattern
        self.before = before
        self.after = after
        self.paths = paths.map { Self.inOrder($0, pattern) } ?? [pattern.base]
    }

    /// Returns the next record that has changed, or nil at the end.
    mutating func nextChange() -> RecordDifference? {
        while true {
            if !frames.isEmpty {
                if let change = nextOfFrame() { return change }
                continue
            }
            guard next < paths.count else { return nil }
            let path = paths[next]
            if path.depth >= pattern.depth {
                if let change = single(path) { return change }
                continue
            }
            next += 1
            if let change = descend(path, before[path], after[path]) { return change }
        }
    }

    /// Returns the paths that are at, above or below possible records of the pattern, in the order of their keys.
    private static func inOrder(_ paths: [Path], _ pattern: PathPattern) -> [Path] {
        let fitting = paths.filter { path in
            // The priority of a path above a record does not belong to the record.
            if path.namesPriority, path.depth <= pattern.depth { return false }
            return zip(pattern.parts, path.keys).allSatisfy { part, key in
                if case .key(let wanted) = part { wanted == key } else { true }
            }
        }
        guard fitting.count > 1 else { return fitting }
        return fitting.sorted { first, second in
            for (one, other) in zip(first.keys, second.keys) where one != other { return one.order(against: other) < 0 }
            return first.depth < second.depth
        }
    }

    /// Returns the record that contains the path, if it has changed. Also consumes the following paths in the same record.
    private mutating func single(_ path: Path) -> RecordDifference? {
        if path.depth == pattern.depth, next + 1 == paths.count || !path.contains(paths[next + 1]) {
            // Most writes set one whole record: one lookup in each tree suffices.
            next += 1
            let (old, new) = (before[path], after[path])
            return differs(old, new) ? change(path, old, new) : nil
        }
        let record = path.prefix(pattern.depth)
        var isChanged = false
        while next < paths.count, record.contains(paths[next]) {
            let path = paths[next]
            next += 1
            if !isChanged { isChanged = differs(before[path], after[path]) }
        }
        guard isChanged else { return nil }
        return change(record, before[record], after[record])
    }

    private func change(_ path: Path, _ old: Node, _ new: Node) -> RecordDifference? {
        old.isNull && new.isNull ? nil : RecordDifference(path: path, before: old, after: new)
    }

    private func differs(_ old: Node, _ new: Node) -> Bool { !old.isIdentical(to: new) && old != new }

    /// Descends from a path above the records as long as the pattern gives literal keys.
    private mutating func descend(_ path: Path, _ old: Node, _ new: Node) -> RecordDifference? {
        var path = path
        var old = old
        var new = new
        while !old.isIdentical(to: new) {
            guard path.depth < pattern.depth else { return old != new ? change(path, old, new) : nil }
            switch pattern.parts[path.depth] {
            case .key(let key):
                path = path.appending(key)
                old = old.child(key)
                new = new.child(key)
            case .capture:
                var frame = Frame(path: path, depth: path.depth + 1)
                if case .branch(let branch) = old { frame.olds = branch.children.makeIterator() }
                if case .branch(let branch) = new { frame.news = branch.children.makeIterator() }
                frame.advanceOld()
                frame.advanceNew()
                frames.append(frame)
                return nil
            }
        }
        return nil
    }

    /// Returns the next change below the innermost frame.
    private mutating func nextOfFrame() -> RecordDifference? {
        let last = frames.count - 1
        let path = frames[last].path
        switch (frames[last].old, frames[last].new) {
        case (nil, nil):
            frames.removeLast()
            return nil
        case (let old?, nil):
            frames[last].advanceOld()
            return descend(path.appending(old.key), old.node, .null)
        case (nil, let new?):
            frames[last].advanceNew()
            return descend(path.appending(new.key), .null, new.node)
        case (let old?, let new?):
            let order = old.key.order(against: new.key)
            if order < 0 {
                frames[last].advanceOld()
                return descend(path.appending(old.key), old.node, .null)
            }
            if order > 0 {
                frames[last].advanceNew()
                return descend(path.appending(new.key), .null, new.node)
            }
            frames[last].advanceOld()
            frames[last].advanceNew()
            return descend(path.appending(old.key), old.node, new.node)
        }
    }
}
