import LogStore
import Tree

/// The changes that entries make to single records, in the order of the entries.
struct RecordWrites {
    /// The changes of one record by one entry.
    struct Write {
        let stamp: EntryStamp
        var changes: [(path: Path, value: Node)]
    }

    /// The records, in the order in which they were first changed.
    private(set) var keys: [[Key]] = []
    private var writes: [[Key]: [Write]] = [:]
    /// The number of changes.
    private(set) var count = 0

    var isEmpty: Bool { keys.isEmpty }

    /// Adds a change of one record.
    mutating func add(_ keys: [Key], _ path: Path, _ value: Node, _ stamp: EntryStamp) {
        count += 1
        if writes[keys] == nil { self.keys.append(keys) }
        // Mutated in place, so that the array is not copied.
        writes[keys, default: []].add(path, value, stamp)
    }

    /// Returns the changes of a record.
    subscript(keys: [Key]) -> [Write] { writes[keys] ?? [] }
}

extension [RecordWrites.Write] {
    fileprivate mutating func add(_ path: Path, _ value: Node, _ stamp: EntryStamp) {
        if let last = indices.last, self[last].stamp.seq == stamp.seq {
            self[last].changes.append((path, value))
        } else {
            append(RecordWrites.Write(stamp: stamp, changes: [(path, value)]))
        }
    }

    /// Visits the record's versions after its earlier value, oldest first: one for each entry that changed the value. `body`
    /// gets the version to be stored, and the value that is known from then on.
    ///
    /// - Parameters:
    ///   - before: nil if the record was too large to be stored. Its value is then unknown until the record is written as a
    ///     whole.
    ///   - limit: the maximum size of a record, in bytes.
    func forEachVersion(
        of key: String, after before: Node?, upTo limit: Int = StoredRecord.maxBytes,
        _ body: (MirrorVersionRecord, RecordVersion) throws -> Void
    ) rethrows {
        var value = before
        for write in self {
            var next = value
            for change in write.changes {
                next = change.path.isRoot ? change.value : next?.replacing(change.path, with: change.value)
            }
            guard let new = next, new != value else { continue }
            let stored = write.stamp.record(key, new, upTo: limit)
            value = stored.isTooLarge ? nil : new
            try body(stored, RecordVersion(stamp: write.stamp, value: value))
        }
    }
}

/// The effect of one change on the records of a pattern.
enum RecordChange {
    /// Sets a path within one record, or the record itself if the path is the root.
    case record([Key], path: Path, value: Node)
    /// Replaces all records below these first keys by those in the value, which is at the pattern's part.
    case range([Key], value: Node, part: Int)

    /// Returns nil for a change that touches no record. This includes priorities above the records, which have no captured
    /// keys.
    init?(_ change: Change, _ pattern: PathPattern) {
        let path = change.path
        guard let keys = pattern.captured(path) else { return nil }
        if path.depth >= pattern.depth {
            self = .record(keys, path: path.dropFirst(pattern.depth), value: change.value)
            return
        }
        if keys.count == pattern.captures.count {
            // One record, below a path with a fixed name: the value contains the record, or there is none.
            let rest = Path(
                pattern.parts.dropFirst(path.depth).compactMap { if case .key(let key) = $0 { key } else { nil } })
            self = .record(keys, path: .root, value: change.value[rest])
            return
        }
        self = .range(keys, value: change.value, part: path.depth)
    }

    /// Visits the records within a value at a part of the pattern.
    static func each(
        in value: Node, _ pattern: PathPattern, part: Int, _ keys: [Key], _ body: ([Key], Node) throws -> Void
    ) rethrows {
        try RecordWalk.each(pattern, in: value, at: part, keys, body)
    }
}
