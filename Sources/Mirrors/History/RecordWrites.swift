import LogStore
import Tree

/// What entries do to single records, in the order of the entries.
struct RecordWrites {
    /// What one entry does to one record.
    struct Write {
        let stamp: EntryStamp
        var changes: [(place: Path, value: Node)]
    }

    /// The records, in the order in which they were touched first.
    private(set) var keys: [[Key]] = []
    private var writes: [[Key]: [Write]] = [:]
    /// How many changes there are.
    private(set) var count = 0

    var isEmpty: Bool { keys.isEmpty }

    /// Adds a change of one record.
    mutating func add(_ keys: [Key], _ place: Path, _ value: Node, _ stamp: EntryStamp) {
        count += 1
        if writes[keys] == nil { self.keys.append(keys) }
        // In place: the array is not copied.
        writes[keys, default: []].add(place, value, stamp)
    }

    /// What is done to a record.
    subscript(keys: [Key]) -> [Write] { writes[keys] ?? [] }
}

extension [RecordWrites.Write] {
    fileprivate mutating func add(_ place: Path, _ value: Node, _ stamp: EntryStamp) {
        if let last = indices.last, self[last].stamp.seq == stamp.seq {
            self[last].changes.append((place, value))
        } else {
            append(RecordWrites.Write(stamp: stamp, changes: [(place, value)]))
        }
    }

    /// Visits the record's versions, oldest first, after what was there before: one for each entry that left another value. Each
    /// is given as it is to be stored and as it is known from then on.
    ///
    /// - Parameters:
    ///   - before: nil where the record was too large to be kept: it is not known until it is written as a whole.
    ///   - limit: the most bytes of a record.
    func forEachVersion(
        of key: String, after before: Node?, upTo limit: Int = StoredRecord.maxBytes,
        _ body: (MirrorVersionRecord, RecordVersion) throws -> Void
    ) rethrows {
        var value = before
        for write in self {
            var next = value
            for change in write.changes {
                next = change.place.isRoot ? change.value : next?.replacing(change.place, with: change.value)
            }
            guard let new = next, new != value else { continue }
            let stored = write.stamp.record(key, new, upTo: limit)
            value = stored.isTooLarge ? nil : new
            try body(stored, RecordVersion(stamp: write.stamp, value: value))
        }
    }
}

/// What one change of an entry does to the records of a pattern.
enum RecordChange {
    /// A place in one record, which may be the record itself, has this value from then on.
    case record([Key], place: Path, value: Node)
    /// All records below these first keys are gone, and those are there that are in the value, which is at the pattern's part.
    case range([Key], value: Node, part: Int)

    /// Nil for a change that touches no record. A priority above the records is none of theirs: it has no captured keys.
    init?(_ change: Change, _ pattern: PathPattern) {
        let path = change.path
        guard let keys = pattern.captured(path) else { return nil }
        if path.depth >= pattern.depth {
            self = .record(keys, place: path.dropFirst(pattern.depth), value: change.value)
            return
        }
        if keys.count == pattern.captures.count {
            // One record, below a place with a fixed name: the value holds it, or there is none.
            let rest = Path(
                pattern.parts.dropFirst(path.depth).compactMap { if case .key(let key) = $0 { key } else { nil } })
            self = .record(keys, place: .root, value: change.value[rest])
            return
        }
        self = .range(keys, value: change.value, part: path.depth)
    }

    /// Visits the records inside of a value at a part of the pattern.
    static func each(
        in value: Node, _ pattern: PathPattern, part: Int, _ keys: [Key], _ body: ([Key], Node) throws -> Void
    ) rethrows {
        try RecordWalk.each(pattern, in: value, at: part, keys, body)
    }
}
