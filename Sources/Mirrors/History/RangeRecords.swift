import LogStore
import Postgres
import Tree

/// Which records there are below places that entries replace as a whole. Where they are few, such an entry is so many changes of single
/// records, which go together with those of other entries.
struct RangeRecords {
    /// How entries can be taken.
    enum Reach {
        /// As changes of single records.
        case known
        /// So too once it has been asked what is there.
        case unknown
        /// There is too much for that.
        case large
    }

    /// Places that are asked for at once.
    private static let placesAtOnce = 50
    /// How many records below a place are few.
    static let mostRecords = 100
    /// So many that are gone are looked at besides.
    private static let mostGone = 400
    /// Larger values are written by themselves.
    private static let mostRows = 1_000

    /// By the keys that were captured at a place: the records below it.
    private var records: [[Key]: Set<[Key]>] = [:]
    private var large: Set<[Key]> = []
    private let limit: Int

    /// - Parameter limit: how many records below a place are few.
    init(upTo limit: Int = mostRecords) { self.limit = limit }

    // MARK: Asking

    /// The first places that entries replace and of which it is not known what is there, up to an entry that is too large.
    func unknownPlaces(of changes: some Sequence<[RecordChange]>) -> [[Key]] {
        var places: [[Key]] = []
        var seen: Set<[Key]> = []
        for entry in changes {
            // What is known is not all of use behind it.
            guard reach(of: entry) != .large else { break }
            let some = entry.compactMap(\.rangeKeys).filter { records[$0] == nil && !large.contains($0) }
            let new = Array(Set(some).subtracting(seen))
            if places.count + new.count > Self.placesAtOnce { break }
            seen.formUnion(new)
            places += new
        }
        return places
    }

    /// Asks for the records below some places.
    func question(_ places: [[Key]], _ mirror: ActiveMirror) -> PipelineStep {
        mirror.versions.keysStep(
            below: places.map { $0.isEmpty ? nil : RecordKey.text($0) }, atMost: limit + Self.mostGone)
    }

    /// Takes what was found below places that were asked for: records, nil for one that is gone, and the index of the place that each
    /// is below.
    mutating func take(_ answer: [(place: Int, key: String?)], of places: [[Key]]) {
        var found: [(records: Set<[Key]>, looked: Int)] = Array(repeating: ([], 0), count: places.count)
        for (place, key) in answer {
            found[place].looked += 1
            if let key { found[place].records.insert(RecordKey.keys(key)) }
        }
        for (place, found) in zip(places, found) {
            // Behind those that were looked at there may be more.
            if found.records.count > limit || found.looked >= limit + Self.mostGone {
                large.insert(place)
            } else {
                records[place] = found.records
            }
        }
    }

    /// Something was written past this. What was too much once is taken to be it still.
    mutating func forget() { records.removeAll() }

    /// An entry with these changes was written past this.
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

    /// How an entry with these changes can be taken.
    func reach(of changes: [RecordChange]) -> Reach {
        var places = 0
        var isKnown = true
        for case .range(let keys, let value, _) in changes {
            places += 1
            if large.contains(keys) || value.rowCount > Self.mostRows || places > Self.placesAtOnce { return .large }
            isKnown = isKnown && records[keys] != nil
        }
        return isKnown ? .known : .unknown
    }

    /// There may be a record.
    mutating func add(_ record: [Key]) {
        guard !records.isEmpty else { return }
        for count in record.indices { records[Array(record.prefix(count))]?.insert(record) }
    }

    /// The records below a place that is known, of which there are none any more.
    mutating func remove(below place: [Key]) -> Set<[Key]> {
        let gone = records[place] ?? []
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
