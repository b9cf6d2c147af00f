import Tree

/// The effect of some entries of the log on one mirror's table: the records and ranges of records that they touch, and the
/// known values. The order is kept: later entries win.
///
/// A record's new value is known if an entry set the whole record. After a change deeper inside, the tree must be read.
struct PendingChanges {
    /// The known state of a touched record.
    enum Record {
        case known(Node, Stamp)
        /// The value must be read from the tree.
        case unknown(Stamp)
    }

    /// The change of all records below a path, which precedes the changes of single records.
    enum Range {
        case untouched
        /// All of them were removed.
        case cleared
        /// All of them must be read from the tree, and get this entry or a later one. Single records are not listed.
        case reloaded(Stamp)
    }

    /// The records below some captured keys.
    private final class Level {
        var range = Range.untouched
        var below: [Key: Level] = [:]
        var record: Record?
    }

    private let pattern: PathPattern
    private var root = Level()
    private var unknownCount = 0
    /// Whether records or ranges must be read from the tree.
    private(set) var needsTree = false

    /// If more records than this must be read, the whole table is read again.
    private static let maxUnknown = 500_000

    init(_ pattern: PathPattern) { self.pattern = pattern }

    var isEmpty: Bool {
        if case .untouched = root.range { return root.below.isEmpty }
        return false
    }

    mutating func removeAll() { self = PendingChanges(pattern) }

    // MARK: Taking entries

    /// Adds an entry. The later chunks of a load have no changes of their own: pass their parts as changes.
    ///
    /// - Parameter floor: the lowest seq of rows that may have had a later entry than this one.
    mutating func take(_ entry: Entry, notBefore floor: Int64 = 0) {
        let stamp = Stamp(seq: max(entry.seq, floor), committedAt: entry.committedAt)
        // A load's values are in its parts. The records that it may have touched are read from the tree.
        if entry.isBulk, !entry.changes.isEmpty { return reload(at: entry.path, stamp) }
        for change in entry.changes { take(change, stamp) }
    }

    /// Adds a change of a load's part.
    mutating func take(_ change: Change, _ stamp: Stamp) {
        let path = change.path
        guard let captured = pattern.captured(path) else { return }
        if path.depth >= pattern.depth {
            // A priority above the record does not concern the mirror.
            set(captured, at: path.dropFirst(pattern.depth), change.value, stamp)
        } else {
            guard !path.namesPriority, let level = clear(captured) else { return }
            addRecords(change.value, pattern.parts.dropFirst(path.depth), captured, level, stamp)
        }
    }

    private mutating func set(_ keys: [Key], at path: Path, _ value: Node, _ stamp: Stamp) {
        guard let (level, isCleared) = level(keys) else { return }
        if path.isRoot {
            level.record = .known(value, stamp)
            return
        }
        switch level.record {
        case .known(let node, _): level.record = .known(node.replacing(path, with: value), stamp)
        case .unknown: level.record = .unknown(stamp)
        case nil where isCleared: level.record = .known(Node.null.replacing(path, with: value), stamp)
        case nil:
            level.record = .unknown(stamp)
            needsTree = true
            unknownCount += 1
        }
        if unknownCount > Self.maxUnknown { reloadEverything(stamp) }
    }

    /// Returns the level of these captured keys, and whether everything there was cleared before. Returns nil within a range
    /// that will be read from the tree anyway.
    private func level(_ keys: [Key]) -> (level: Level, isCleared: Bool)? {
        var level = root
        var isCleared = false
        for (index, key) in keys.enumerated() {
            switch level.range {
            case .reloaded: return nil
            case .cleared: isCleared = true
            case .untouched: break
            }
            if let next = level.below[key] {
                level = next
            } else {
                let next = Level()
                level.below[key] = next
                level = next
            }
            if index == keys.count - 1, case .reloaded = level.range { return nil }
        }
        if case .reloaded = level.range { return nil }
        if case .cleared = level.range { isCleared = true }
        return (level, isCleared)
    }

    /// Forgets the state of records below these keys, because they were removed.
    private mutating func clear(_ keys: [Key]) -> Level? {
        guard let (level, _) = level(keys) else { return nil }
        level.below = [:]
        level.record = nil
        level.range = .cleared
        return level
    }

    /// Adds the records within a value that was set above them.
    private mutating func addRecords(
        _ value: Node, _ parts: ArraySlice<PathPattern.Part>, _ keys: [Key], _ level: Level, _ stamp: Stamp
    ) {
        if value.isNull { return }
        guard let part = parts.first else {
            level.record = .known(value, stamp)
            return
        }
        switch part {
        case .key(let key): addRecords(value.child(key), parts.dropFirst(), keys, level, stamp)
        case .capture:
            guard case .branch(let branch) = value else { return }
            for entry in branch.children {
                let next = Level()
                level.below[entry.key] = next
                addRecords(entry.node, parts.dropFirst(), keys, next, stamp)
            }
        }
    }

    private mutating func reload(at path: Path, _ stamp: Stamp) {
        guard let captured = pattern.captured(path), let (level, _) = level(captured) else { return }
        needsTree = true
        if captured.count == pattern.captures.count {
            level.record = .unknown(stamp)
            level.range = .untouched
        } else {
            level.below = [:]
            level.range = .reloaded(stamp)
        }
    }

    /// Marks one record to be read from the tree, regardless of the log.
    mutating func reread(_ keys: [Key], _ stamp: Stamp) {
        guard let (level, _) = level(keys) else { return }
        level.record = .unknown(stamp)
        needsTree = true
    }

    /// Marks the whole table to be read again from the tree.
    mutating func reloadEverything(_ stamp: Stamp) {
        root = Level()
        root.range = .reloaded(stamp)
        unknownCount = 0
        needsTree = true
    }

    // MARK: Visiting

    /// A range of records that is emptied before single ones are written.
    struct Emptied {
        let keys: [Key]
        /// The lowest stamp of the rows that are read from the tree afterwards, or nil if the range stays empty.
        let reloaded: Stamp?
    }

    /// Visits the changes: first the ranges, then the records.
    func visit(
        ranges: (Emptied) throws -> Void, records: ([Key], Record) throws -> Void
    ) rethrows {
        try visitRanges(root, [], isCovered: false, ranges)
        try visitRecords(root, [], records)
    }

    private func visitRanges(
        _ level: Level, _ keys: [Key], isCovered: Bool, _ body: (Emptied) throws -> Void
    ) rethrows {
        var isCovered = isCovered
        switch level.range {
        case .untouched: break
        case .cleared:
            // A range within an emptied one is already empty.
            if !isCovered { try body(Emptied(keys: keys, reloaded: nil)) }
            isCovered = true
        case .reloaded(let stamp): return try body(Emptied(keys: keys, reloaded: stamp))
        }
        for (key, next) in level.below { try visitRanges(next, keys + [key], isCovered: isCovered, body) }
    }

    private func visitRecords(
        _ level: Level, _ keys: [Key], _ body: ([Key], Record) throws -> Void
    ) rethrows {
        if let record = level.record { try body(keys, record) }
        for (key, next) in level.below { try visitRecords(next, keys + [key], body) }
    }
}

extension PathPattern {
    /// Returns the keys that the pattern captures of a path at, above or below its records, or nil for a path elsewhere.
    func captured(_ path: Path) -> [Key]? {
        var keys: [Key] = []
        for (index, part) in parts.enumerated() {
            guard index < path.depth else { break }
            let key = path[index]
            switch part {
            case .key(let literal): if literal != key { return nil }
            case .capture:
                if key == .priority { return nil }
                keys.append(key)
            }
        }
        return keys
    }
}
