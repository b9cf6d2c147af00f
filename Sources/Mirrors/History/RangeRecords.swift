import LogStore
import Postgres
import Tree

/// The known records below paths that entries replace as a whole. If there are few, such an entry is applied as changes of
/// single records, together with other entries.
struct RangeRecords {
    /// The way in which an entry can be applied.
    enum Reach {
        /// As changes of single records.
        case known
        /// As changes of single records, after a query for the existing records.
        case unknown
        /// Separately, because the entry affects too many records.
        case large
    }

    /// The maximum number of paths queried at once.
    private static let prefixesAtOnce = 50
    /// The default limit of records below a path.
    static let mostRecords = 100
    /// The number of removed records that are read in addition to the limit.
    private static let mostGone = 400
    /// The largest value, by its row count, that is applied as changes of single records.
    private static let mostRows = 1_000

    /// The records below each path, by the keys captured in the path.
    private var records: [[Key]: Set<[Key]>] = [:]
    private var large: Set<[Key]> = []
    private let limit: Int

    /// - Parameter limit: the maximum number of records below a path.
    init(upTo limit: Int = mostRecords) { self.limit = limit }

    // MARK: Asking

    /// Returns the first paths that entries replace and whose records are unknown, up to an entry that is too large.
    func unknownPrefixes(of changes: some Sequence<[RecordChange]>) -> [[Key]] {
        var prefixes: [[Key]] = []
        var seen: Set<[Key]> = []
        for entry in changes {
            // Such an entry invalidates some of the known records.
            guard reach(of: entry) != .large else { break }
            let some = entry.compactMap(\.rangeKeys).filter { records[$0] == nil && !large.contains($0) }
            let new = Array(Set(some).subtracting(seen))
            if prefixes.count + new.count > Self.prefixesAtOnce { break }
            seen.formUnion(new)
            prefixes += new
        }
        return prefixes
    }

    /// Returns a query for the records below some paths.
    func question(_ prefixes: [[Key]], _ mirror: ActiveMirror) -> PipelineStep {
        mirror.versions.keysStep(
            below: prefixes.map { $0.isEmpty ? nil : RecordKey.text($0) }, atMost: limit + Self.mostGone)
    }

    /// Stores the result of the query for some paths. Each row has the index of its path and a record, or nil for a removed
    /// record.
    mutating func take(_ answer: [(index: Int, key: String?)], of prefixes: [[Key]]) {
        var found: [(records: Set<[Key]>, looked: Int)] = Array(repeating: ([], 0), count: prefixes.count)
        for (index, key) in answer {
            found[index].looked += 1
            if let key { found[index].records.insert(RecordKey.keys(key)) }
        }
        for (prefix, found) in zip(prefixes, found) {
            // More records may follow the ones that were read.
            if found.records.count > limit || found.looked >= limit + Self.mostGone {
                large.insert(prefix)
            } else {
                records[prefix] = found.records
            }
        }
    }

    /// Forgets the known records after a write that was not applied here. Paths with too many records are assumed to keep them.
    mutating func forget() { records.removeAll() }

    /// Forgets the records that a separately applied entry with these changes affects.
    mutating func forget(around changes: [RecordChange]) {
        for change in changes {
            switch change {
            case .record(let keys, _, _): add(keys)
            case .range(let keys, _, _):
                records = records.filter { !keys.starts(with: $0.key) && !$0.key.starts(with: keys) }
            }
        }
    }

    // MARK: Entries

    /// Returns the way in which an entry with these changes can be applied.
    func reach(of changes: [RecordChange]) -> Reach {
        var prefixes = 0
        var isKnown = true
        for case .range(let keys, let value, _) in changes {
            prefixes += 1
            if large.contains(keys) || value.rowCount > Self.mostRows || prefixes > Self.prefixesAtOnce {
                return .large
            }
            isKnown = isKnown && records[keys] != nil
        }
        return isKnown ? .known : .unknown
    }

    /// Notes a record that may exist.
    mutating func add(_ record: [Key]) {
        guard !records.isEmpty else { return }
        for count in record.indices { records[Array(record.prefix(count))]?.insert(record) }
    }

    /// Removes all records below a known path, and returns them.
    mutating func remove(below prefix: [Key]) -> Set<[Key]> {
        let gone = records[prefix] ?? []
        for record in gone {
            for count in record.indices { records[Array(record.prefix(count))]?.remove(record) }
        }
        return gone
    }
}

extension RecordChange {
    fileprivate var rangeKeys: [Key]? {
        if case .range(let keys, _, _) = self { keys } else { nil }
    }
}
