import Tree

/// What a stretch of the log does to one mirror's table: the records and whole ranges of records that it touches, with
/// what is known of them. Order within the stretch is kept: what comes later wins.
///
/// A record's new value is known when an entry set it whole; after a change deeper inside, the tree has to be asked.
struct PendingChanges {
    /// What is known of a touched record.
    enum Record {
        case known(Node, Stamp)
        /// The tree has to be asked.
        case unknown(Stamp)
    }

    /// What happened to all records below a place, before what is said of single ones.
    enum Range {
        case untouched
        /// They are all gone.
        case cleared
        /// They are to be read from the tree, all of them, and get this entry or a later one; nothing is said of single ones.
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
    /// Records and ranges for which the tree has to be asked.
    private(set) var needsTree = false

    /// With more records than this to be asked for, the whole table is read anew.
    private static let maxUnknown = 500_000

    init(_ pattern: PathPattern) { self.pattern = pattern }

    var isEmpty: Bool {
        if case .untouched = root.range { return root.below.isEmpty }
        return false
    }

    mutating func removeAll() { self = PendingChanges(pattern) }

    // MARK: Taking entries

    /// Takes an entry. The further chunks of a load have no changes of their own: take their parts as changes.
    ///
    /// - Parameter floor: the least entry that rows get, where they may have had a later one than this.
    mutating func take(_ entry: Entry, notBefore floor: Int64 = 0) {
        let stamp = Stamp(seq: max(entry.seq, floor), committedAt: entry.committedAt)
        // A load's values are in its parts: what it may have touched is read from the tree.
        if entry.isBulk, !entry.changes.isEmpty { return reload(at: entry.path, stamp) }
        for change in entry.changes { take(change, stamp) }
    }

    /// One of the parts of a load.
    mutating func take(_ change: Change, _ stamp: Stamp) {
        let path = change.path
        guard let captured = pattern.captured(path) else { return }
        if path.depth >= pattern.depth {
            // A priority above the record is none of ours.
            set(captured, at: path.dropFirst(pattern.depth), change.value, stamp)
        } else {
            guard !path.namesPriority, let level = clear(captured) else { return }
            addRecords(change.value, pattern.parts.dropFirst(path.depth), captured, level, stamp)
        }
    }

    private mutating func set(_ keys: [Key], at place: Path, _ value: Node, _ stamp: Stamp) {
        guard let (level, isCleared) = level(keys) else { return }
        if place.isRoot {
            level.record = .known(value, stamp)
            return
        }
        switch level.record {
        case .known(let node, _): level.record = .known(node.replacing(place, with: value), stamp)
        case .unknown: level.record = .unknown(stamp)
        case nil where isCleared: level.record = .known(Node.null.replacing(place, with: value), stamp)
        case nil:
            level.record = .unknown(stamp)
            needsTree = true
            unknownCount += 1
        }
        if unknownCount > Self.maxUnknown { reloadEverything(stamp) }
    }

    /// The level of these captured keys and whether everything there was cleared before; nil below a range that is read
    /// from the tree anyway.
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

    /// Forgets what was said of records below these keys: they are gone.
    private mutating func clear(_ keys: [Key]) -> Level? {
        guard let (level, _) = level(keys) else { return nil }
        level.below = [:]
        level.record = nil
        level.range = .cleared
        return level
    }

    /// The records inside of a value that was set above them.
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

    /// Asks the tree for one record, whatever the log says of it.
    mutating func reread(_ keys: [Key], _ stamp: Stamp) {
        guard let (level, _) = level(keys) else { return }
        level.record = .unknown(stamp)
        needsTree = true
    }

    /// Reads the whole table anew from the tree.
    mutating func reloadEverything(_ stamp: Stamp) {
        root = Level()
        root.range = .reloaded(stamp)
        unknownCount = 0
        needsTree = true
    }

    // MARK: Giving out

    /// A range of records that is emptied before single ones are written.
    struct Emptied {
        let keys: [Key]
        /// The least entry of the rows that are read from the tree afterwards; nil where the range stays empty.
        let reloaded: Stamp?
    }

    /// Visits what is to be done: first the ranges, then the records.
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
            // A range inside an emptied one is empty already.
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
    /// The keys that the pattern captures of a path at, above or below its records; nil for a path elsewhere.
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
