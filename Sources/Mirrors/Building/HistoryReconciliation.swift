import LogStore
import Postgres
import Runtime
import Tree

/// Corrects the versions of a mirror's records if the log contradicts them or does not continue from them. Versions of later
/// entries are removed, and differences from the base are stored at its position.
///
/// Runs in the open transaction of the target. Memory holds one slice of records.
struct HistoryReconciliation {
    private let target: PostgresConnection
    private let versions: MirrorVersions
    private let definition: MirrorDefinition
    private let projector: Projector
    private let ground: HistoryBase
    /// The stamp of removals. If the base's time is unknown, they get the current time, as they happened no later.
    private let stamp: EntryStamp

    /// The maximum number of records compared at once.
    private static let maxRecords = 1_000
    private static let maxBytes = 4 << 20

    init(
        _ target: PostgresConnection, _ versions: MirrorVersions, _ definition: MirrorDefinition,
        _ ground: HistoryBase
    ) {
        self.target = target
        self.versions = versions
        self.definition = definition
        self.ground = ground
        projector = Projector(definition)
        stamp = EntryStamp(
            seq: ground.seq, at: ground.at ?? Clock.unixMilliseconds, author: nil, isBegin: true)
    }

    func run() throws {
        if definition.keeps == .latest { try keepLastValues() }
        _ = try target.pipeline([versions.forgetStep(after: ground.seq)])
        try compareRecords()
        try removeOthers()
    }

    /// Keeps the rows of records that only lost entries have created: with their last values, as removed. The values are stored
    /// at the position before the base's.
    private func keepLastValues() throws {
        var slice = VersionSlice(versions, target)
        try versions.read(target, .lastValues(after: ground.seq)) { some in
            let late = some.map(\.version)
            let keys = late.map { RecordKey.keys($0.key) }
            for (version, value) in zip(late, try ground.values(keys)) where value.isNull {
                try slice.add(
                    MirrorVersionRecord(
                        key: version.key, seq: ground.seq - 1, at: version.at, author: version.author,
                        isBegin: version.isBegin, record: version.record))
            }
        }
        try slice.store()
    }

    private func compareRecords() throws {
        var slice = VersionSlice(versions, target)
        var records: [(key: String, json: MirrorVersionRecord)] = []
        var bytes = 0
        let compare = { (slice: inout VersionSlice) throws in
            let found = try self.versions.newest(self.target, of: records.map(\.key))
            for (record, known) in zip(records, found) {
                guard try Node(stored: known?.record) != Node(stored: record.json.record) else { continue }
                try slice.add(record.json)
            }
            records.removeAll(keepingCapacity: true)
            bytes = 0
        }
        try ground.each { keys, record, _ in
            guard projector.holds(keys) else { return }
            let key = RecordKey.text(keys)
            let version = stamp.record(key, record)
            records.append((key, version))
            bytes += version.record?.count ?? 0
            if records.count >= Self.maxRecords || bytes >= Self.maxBytes { try compare(&slice) }
        }
        try compare(&slice)
        try slice.store()
    }

    /// Stores the removal of records that have versions but are not in the tree.
    private func removeOthers() throws {
        var slice = VersionSlice(versions, target)
        try versions.read(target, .now) { some in
            let keys = some.map { RecordKey.keys($0.version.key) }
            for (keys, value) in zip(keys, try ground.values(keys)) where value.isNull {
                try slice.add(stamp.record(RecordKey.text(keys), .null))
            }
        }
        try slice.store()
    }
}

/// Versions that wait to be stored in the database, a slice at a time.
struct VersionSlice {
    private let versions: MirrorVersions
    private let target: PostgresConnection
    private var waiting: [MirrorVersionRecord] = []
    private var bytes = 0

    init(_ versions: MirrorVersions, _ target: PostgresConnection) {
        self.versions = versions
        self.target = target
    }

    mutating func add(_ version: MirrorVersionRecord) throws {
        waiting.append(version)
        bytes += version.record?.count ?? 0
        if waiting.count >= HistoryWriter.maxVersions || bytes >= HistoryWriter.maxBytes { try store() }
    }

    mutating func store() throws {
        guard !waiting.isEmpty else { return }
        _ = try target.pipeline([versions.storeStep(waiting)])
        waiting.removeAll(keepingCapacity: true)
        bytes = 0
    }
}
