import LogStore
import Postgres
import Tree

/// Entries that touch more than single records: they replace an ancestor of records, or load values in parts.
///
/// Their versions are created first, in the database, a bounded slice at a time. Rows are then created from the versions that
/// differ from the earlier ones.
extension HistoryWriter {
    /// Changes that a load's parts make to single records. They are stored together, because each part alone would write a
    /// large record again.
    private struct PartWrites {
        var writes = RecordWrites()
        private(set) var bytes = 0

        /// The approximate limit of their memory.
        static let maxBytes = 64 << 20

        mutating func add(_ keys: [Key], _ path: Path, _ value: Node, _ stamp: EntryStamp) {
            writes.add(keys, path, value, stamp)
            bytes += value.heapBytes + 200
        }
    }

    /// Applies an entry with a change that replaces a range of records.
    mutating func replace(_ entry: Entry, _ mirror: inout ActiveMirror, _ writer: inout TableWriter) throws {
        let stamp = EntryStamp(entry)
        try apply(entry.changes, stamp, &mirror, &writer)
        try settle(stamp, &mirror, &writer)
    }

    /// Applies an entry in parts. Values that the entry removes are replaced by those of its parts, all at once.
    mutating func load(_ entry: Entry, _ mirror: inout ActiveMirror, _ writer: inout TableWriter) throws {
        let stamp = EntryStamp(entry)
        let pattern = mirror.definition.pattern
        // Removed paths within records.
        var emptied: Set<Path> = []
        var own: [Change] = []
        for change in ApplicationOrder.sorted(entry.changes) {
            if change.step == .removals, change.path.depth > pattern.depth {
                if pattern.captured(change.path) != nil { emptied.insert(change.path) }
            } else {
                own.append(change)
            }
        }
        try apply(own, stamp, &mirror, &writer)
        var waiting = PartWrites()
        var passes = PartPasses()
        repeat {
            var number: Int32 = 0
            while let part = try source.part(number, of: entry.seq, mirror.namespace) {
                for change in passes.select(part) {
                    if passes.step == .values {
                        // A leaf holds the path until the value is set, and so keeps its ancestors alive.
                        for path in makeRoom(for: change, &emptied, pattern) {
                            try take(Change(path: path, value: .bool(false)), &waiting, stamp, &mirror, &writer)
                        }
                    }
                    try take(change, &waiting, stamp, &mirror, &writer)
                }
                number += 1
            }
            if passes.step == .values {
                // No part has set a value at these paths, so they are removals.
                for path in emptied {
                    try take(Change(path: path, value: .null), &waiting, stamp, &mirror, &writer)
                }
            }
            try put(&waiting, stamp, &mirror, &writer)
        } while passes.beginNextPass()
        try settle(stamp, &mirror, &writer)
    }

    /// Returns the removed paths within records that a value of the load reaches. Deletes them from `emptied`.
    private func makeRoom(for change: Change, _ emptied: inout Set<Path>, _ pattern: PathPattern) -> [Path] {
        guard !emptied.isEmpty, change.path.depth > pattern.depth else { return [] }
        var found: [Path] = []
        for depth in pattern.depth + 1...change.path.depth {
            if let path = emptied.remove(Path(Array(change.path.keys.prefix(depth)))) { found.append(path) }
        }
        return found
    }

    /// Applies a change of a part.
    private mutating func take(
        _ change: Change, _ waiting: inout PartWrites, _ stamp: EntryStamp, _ mirror: inout ActiveMirror,
        _ writer: inout TableWriter
    ) throws {
        switch RecordChange(change, mirror.definition.pattern) {
        case nil: return
        case .range?:
            try put(&waiting, stamp, &mirror, &writer)
            try apply([change], stamp, &mirror, &writer)
        case .record(let keys, let path, let value)?:
            guard mirror.projector.holds(keys) else { return }
            waiting.add(keys, path, value, stamp)
            if waiting.bytes >= PartWrites.maxBytes { try put(&waiting, stamp, &mirror, &writer) }
        }
    }

    private mutating func put(
        _ waiting: inout PartWrites, _ stamp: EntryStamp, _ mirror: inout ActiveMirror, _ writer: inout TableWriter
    ) throws {
        try put(waiting.writes, &mirror, &writer)
        waiting = PartWrites()
    }

    // MARK: Versions

    /// Creates the versions of an entry's own changes. The changes of one step are applied together: none of their paths is
    /// below another.
    private mutating func apply(
        _ changes: [Change], _ stamp: EntryStamp, _ mirror: inout ActiveMirror, _ writer: inout TableWriter
    ) throws {
        var rest = changes[...]
        while let step = rest.first?.step {
            let some = rest.prefix { $0.step == step }
            rest = rest.dropFirst(some.count)
            var writes = RecordWrites()
            var ranges: [(keys: [Key], value: Node, part: Int)] = []
            for change in some {
                switch RecordChange(change, mirror.definition.pattern) {
                case nil: break
                case .record(let keys, let path, let value)?:
                    if mirror.projector.holds(keys) { writes.add(keys, path, value, stamp) }
                case .range(let keys, let value, let part)?: ranges.append((keys, value, part))
                }
            }
            try put(writes, &mirror, &writer)
            try replace(ranges, stamp, &mirror, &writer)
        }
    }

    private mutating func replace(
        _ ranges: [(keys: [Key], value: Node, part: Int)], _ stamp: EntryStamp, _ mirror: inout ActiveMirror,
        _ writer: inout TableWriter
    ) throws {
        guard !ranges.isEmpty else { return }
        try writer.flush(before: mirror)
        let beginnings = ranges.map { $0.keys.isEmpty ? nil : RecordKey.text($0.keys) }
        try mirror.versions.clear(writer.connection, below: beginnings, by: stamp.record("", .null))
        for range in ranges {
            try RecordWalk.each(mirror.definition.pattern, in: range.value, at: range.part, range.keys) { keys, value in
                guard mirror.projector.holds(keys) else { return }
                try collect(stamp.record(RecordKey.text(keys), value, upTo: maxRecordBytes), keys, mirror, &writer)
            }
        }
        try store(&mirror, &writer)
    }

    /// Stores the versions that the entry has created up to now. The records may already have a version of this entry.
    private mutating func put(
        _ writes: RecordWrites, _ mirror: inout ActiveMirror, _ writer: inout TableWriter
    ) throws {
        var reader = NewestRecords(writes.keys)
        while let slice = try reader.next(mirror, &writer) {
            for record in slice {
                let key = RecordKey.text(record.keys)
                try writes[record.keys].forEachVersion(of: key, after: record.value, upTo: maxRecordBytes) {
                    stored, _ in try collect(stored, record.keys, mirror, &writer)
                }
            }
            try store(&mirror, &writer)
        }
    }

    // MARK: Rows

    /// Creates rows from the entry's versions. Versions that equal the previous ones are removed.
    private mutating func settle(
        _ stamp: EntryStamp, _ mirror: inout ActiveMirror, _ writer: inout TableWriter
    ) throws {
        try writer.flush()
        let versions = mirror.versions
        var rows = HistoryRows(mirror.projector)
        var mirrorNow = mirror
        var writerNow = writer
        try versions.read(writer.connection, .entry(stamp.seq)) { slice in
            var same: [String] = []
            var thinning = Thinning()
            for change in slice {
                let key = change.version.key
                guard change.version.record != change.before else {
                    same.append(key)
                    continue
                }
                rows.begin(
                    RecordKey.keys(key), before: try StoredRecord.decode(change.before), isFirst: change.isFirst)
                rows.take(try RecordVersion(change.version))
                rows.end()
                thinning.note(key, rowSeq: rows.lastRowSeq, lastSeq: stamp.seq)
            }
            try put(&rows, &mirrorNow, &writerNow)
            if !same.isEmpty { try writerNow.add(versions.removeStep(same, at: stamp.seq), mirrorNow) }
            if mirrorNow.definition.keeps == .latest { try thinning.thin(mirrorNow, &writerNow) }
            // The next slice is read on the same connection, and does not see these changes.
            try writerNow.flush()
        }
        mirror = mirrorNow
        writer = writerNow
    }
}
