import LogStore
import Postgres
import Tree

/// Writes the effects of a page of entries into a mirror with a history: the records' versions and their rows, in the open
/// transaction of the target.
///
/// Each entry counts, and a record has at most one version per entry. The earlier state is known from the versions: the tree is
/// never read. Memory holds a page of entries and a bounded slice of records.
struct HistoryWriter {
    let source: LogConnection
    /// The size of the largest record that is stored, in bytes of JSON.
    let maxRecordBytes: Int
    /// The entries of the page that were not applied yet.
    private var entries: ArraySlice<LoggedEntry> = []
    /// The changes of single records by the entries before those.
    private var writes = RecordWrites()
    /// The known records below paths that entries replace.
    private var ranges: RangeRecords
    /// The paths for which `begin` has returned a query.
    private var askedPrefixes: [[Key]] = []
    /// Versions that wait to be stored together.
    private var collected: [MirrorVersionRecord] = []
    private var collectedBytes = 0
    /// The errors of records that were too large.
    private var refusals: [ConversionError] = []

    /// The maximum number of versions stored at once.
    static let maxVersions = 5_000
    static let maxBytes = 4 << 20
    /// The maximum number of changes of single records collected at once.
    private static let maxWrites = 20_000
    /// The approximate size of a version without its key and record.
    private static let versionBytes = 100

    init(
        _ source: LogConnection, maxRecordBytes: Int = StoredRecord.maxBytes,
        rangeRecords: Int = RangeRecords.mostRecords
    ) {
        self.source = source
        ranges = RangeRecords(upTo: rangeRecords)
        self.maxRecordBytes = maxRecordBytes
    }

    /// Begins a page, whose first entries may precede the mirror's position. Returns the query that must run first, if any;
    /// `finish` takes its result.
    ///
    /// - Parameter others: the number of other mirrors that query at the same time.
    mutating func begin(_ page: [LoggedEntry], _ mirror: ActiveMirror, besides others: Int) -> PipelineStep? {
        entries = page.drop { $0.entry.seq <= mirror.seq }
        askedPrefixes = unknownPrefixes(mirror)
        guard askedPrefixes.isEmpty else { return ranges.question(askedPrefixes, mirror) }
        collect(mirror)
        guard !writes.isEmpty else { return nil }
        return NewestRecords.question(writes.keys, mirror, upTo: MirrorVersions.bytesAtOnce / (others + 1))
    }

    /// Writes the effects of the page.
    mutating func finish(
        _ mirror: inout ActiveMirror, _ writer: inout TableWriter, _ answer: PostgresResult?
    ) throws {
        if let answer, !askedPrefixes.isEmpty {
            ranges.take(try MirrorVersions.keys(answer), of: askedPrefixes)
            collect(mirror)
            try write(nil, &mirror, &writer)
        } else {
            try write(answer, &mirror, &writer)
        }
        while let entry = entries.first?.entry {
            try takeWhole(entry, &mirror, &writer)
            collect(mirror)
            try write(nil, &mirror, &writer)
        }
    }

    /// Applies an entry at which `collect` stopped, or queries the records that it needs.
    private mutating func takeWhole(_ entry: Entry, _ mirror: inout ActiveMirror, _ writer: inout TableWriter) throws {
        if entry.isBulk {
            // `collect` skips loads that do not touch the mirror.
            guard mirror.definition.pattern.captured(entry.path) != nil else { return }
            entries.removeFirst()
            ranges.forget()
            return try load(entry, &mirror, &writer)
        }
        let changes = Self.changes(entry, mirror)
        switch ranges.reach(of: changes) {
        case .known: break
        case .unknown:
            let prefixes = unknownPrefixes(mirror)
            let answers = try writer.flush(asking: [(ranges.question(prefixes, mirror), mirror)])
            for answer in answers { ranges.take(try MirrorVersions.keys(answer), of: prefixes) }
        case .large:
            entries.removeFirst()
            ranges.forget(around: changes)
            try replace(entry, &mirror, &writer)
        }
    }

    /// Returns the unknown paths that entries replace, up to the next load that touches the mirror.
    private func unknownPrefixes(_ mirror: ActiveMirror) -> [[Key]] {
        let pattern = mirror.definition.pattern
        let some = entries.lazy.map(\.entry).prefix { !$0.isBulk || pattern.captured($0.path) == nil }
        return ranges.unknownPrefixes(of: some.map { Self.changes($0, mirror) })
    }

    private static func changes(_ entry: Entry, _ mirror: ActiveMirror) -> [RecordChange] {
        entry.changes.compactMap { RecordChange($0, mirror.definition.pattern) }
    }

    // MARK: Single records

    /// Collects changes of single records, up to an entry that replaces unknown records or must be applied separately.
    private mutating func collect(_ mirror: ActiveMirror) {
        let pattern = mirror.definition.pattern
        while writes.count < Self.maxWrites, let entry = entries.first?.entry {
            if entry.isBulk {
                if pattern.captured(entry.path) != nil { return }
            } else {
                let changes = Self.changes(entry, mirror)
                guard ranges.reach(of: changes) == .known else { return }
                if !changes.isEmpty { collect(changes, EntryStamp(entry), mirror) }
            }
            entries.removeFirst()
        }
    }

    private mutating func collect(_ changes: [RecordChange], _ stamp: EntryStamp, _ mirror: ActiveMirror) {
        func add(_ keys: [Key], _ path: Path, _ value: Node) {
            guard mirror.projector.holds(keys) else { return }
            writes.add(keys, path, value, stamp)
            ranges.add(keys)
        }
        for change in changes {
            switch change {
            case .record(let keys, let path, let value): add(keys, path, value)
            case .range(let keys, let value, let part):
                for record in ranges.remove(below: keys) { writes.add(record, .root, .null, stamp) }
                RecordChange.each(in: value, mirror.definition.pattern, part: part, keys) { add($0, .root, $1) }
            }
        }
    }

    /// Writes the versions and rows of the collected changes of single records.
    private mutating func write(
        _ answer: PostgresResult?, _ mirror: inout ActiveMirror, _ writer: inout TableWriter
    ) throws {
        guard !writes.isEmpty else { return }
        let writes = writes
        self.writes = RecordWrites()
        var rows = HistoryRows(mirror.projector)
        var thinning = Thinning()
        var reader = NewestRecords(writes.keys, answer)
        while let slice = try reader.next(mirror, &writer) {
            for record in slice {
                let key = RecordKey.text(record.keys)
                rows.begin(record.keys, before: record.value, isFirst: record.isFirst)
                var last: Int64?
                var needed = NeededVersions()
                try writes[record.keys].forEachVersion(of: key, after: record.value, upTo: maxRecordBytes) {
                    stored, version in
                    last = stored.seq
                    rows.take(version)
                    if mirror.definition.keeps == .latest {
                        needed.take(stored, makesRow: rows.lastRowSeq == stored.seq)
                    } else {
                        try collect(stored, record.keys, mirror, &writer)
                    }
                    if rows.work.rows.count >= Self.maxVersions || rows.byteCount >= Self.maxBytes {
                        try put(&rows, &mirror, &writer)
                    }
                }
                rows.end()
                for version in needed.versions { try collect(version, record.keys, mirror, &writer) }
                if let last { thinning.note(key, rowSeq: rows.lastRowSeq, lastSeq: last) }
            }
            try store(&mirror, &writer)
            try put(&rows, &mirror, &writer)
        }
        if mirror.definition.keeps == .latest { try thinning.thin(mirror, &writer) }
    }

    // MARK: Versions

    /// Adds a version to those that are stored together.
    mutating func collect(
        _ version: MirrorVersionRecord, _ keys: [Key], _ mirror: ActiveMirror, _ writer: inout TableWriter
    ) throws {
        if version.isTooLarge { refusals.append(tooLarge(keys, version.seq, mirror)) }
        collected.append(version)
        collectedBytes += version.key.utf8.count + (version.record?.count ?? 0) + Self.versionBytes
        if collected.count >= Self.maxVersions || collectedBytes >= Self.maxBytes { try storeVersions(mirror, &writer) }
    }

    /// Stores the collected versions, and the errors of records that were too large.
    mutating func store(_ mirror: inout ActiveMirror, _ writer: inout TableWriter) throws {
        try storeVersions(mirror, &writer)
        guard !refusals.isEmpty else { return }
        mirror.mayHaveErrors = true
        try writer.add(mirror.storing(mirror.definition.isHistory ? refusals : newest(of: refusals)), mirror)
        refusals.removeAll()
    }

    private mutating func storeVersions(_ mirror: ActiveMirror, _ writer: inout TableWriter) throws {
        guard !collected.isEmpty else { return }
        try writer.add(mirror.versions.storeStep(collected), mirror, bytes: collectedBytes)
        collected.removeAll(keepingCapacity: true)
        collectedBytes = 0
    }

    /// Returns the newest error of each record, for a table with one row per record.
    private func newest(of refusals: [ConversionError]) -> [ConversionError] {
        Array(Dictionary(refusals.map { (Key($0.record), $0) }) { $1 }.values)
    }

    private func tooLarge(_ keys: [Key], _ seq: Int64, _ mirror: ActiveMirror) -> ConversionError {
        let path = mirror.definition.pattern.path(of: keys).description
        return ConversionError(
            record: path, column: "", path: path, seq: seq, value: nil,
            reason:
                "the record has more than \(maxRecordBytes) bytes as JSON, the limit of a stored version; the record has no row until it is written as a whole"
        )
    }
}

/// Reads the newest versions of some records, a slice at a time.
struct NewestRecords {
    /// A record and its value. The value is nil if it is too large to be stored.
    struct Found {
        let keys: [Key]
        let value: Node?
        /// Whether the record has no version.
        let isFirst: Bool
    }

    private let keys: [[Key]]
    private var position = 0
    private var count = MirrorVersions.keysAtOnce
    private var answer: PostgresResult?

    /// - Parameter answer: the result of `question` for these records, if that query has already run.
    init(_ keys: [[Key]], _ answer: PostgresResult? = nil) {
        self.keys = keys
        self.answer = answer
    }

    /// Returns the query for the first of some records. Its result is empty if they are large.
    static func question(_ keys: [[Key]], _ mirror: ActiveMirror, upTo bytes: Int) -> PipelineStep {
        mirror.versions.newestStep(
            of: keys.prefix(MirrorVersions.keysAtOnce).map { RecordKey.text($0) }, upTo: bytes, least: 0)
    }

    /// Returns the next records, or nil after the last one.
    mutating func next(_ mirror: ActiveMirror, _ writer: inout TableWriter) throws -> [Found]? {
        guard position < keys.count else { return nil }
        var found = try answer.map { try MirrorVersions.newest($0) } ?? []
        answer = nil
        if found.isEmpty {
            let some = keys[position..<min(position + count, keys.count)].map { RecordKey.text($0) }
            let step = mirror.versions.newestStep(of: some, upTo: MirrorVersions.bytesAtOnce)
            found = try writer.flush(asking: [(step, mirror)]).flatMap { try MirrorVersions.newest($0) }
        }
        let some = keys[position..<position + found.count]
        position += found.count
        count = MirrorVersions.count(after: found.count)
        return try zip(some, found).map {
            Found(keys: $0, value: try StoredRecord.decode($1?.record), isFirst: $1 == nil)
        }
    }
}

/// Removes versions that a table with the last row of each record does not need: versions older than the last row, and those
/// between the version that removed the record and the newest.
struct Thinning {
    private var rows: [(key: String, seq: Int64)] = []
    private var others: [(key: String, seq: Int64)] = []

    /// Notes a record's new versions.
    ///
    /// - Parameter rowSeq: the newest of them with a row, or nil if there is none.
    mutating func note(_ key: String, rowSeq: Int64?, lastSeq: Int64) {
        if let rowSeq { rows.append((key, rowSeq)) }
        if rowSeq != lastSeq { others.append((key, lastSeq)) }
    }

    /// Removes the versions that are not needed.
    func thin(_ mirror: ActiveMirror, _ writer: inout TableWriter) throws {
        for (versions, keepsTwo) in [(rows, false), (others, true)] {
            for some in versions.chunked(HistoryWriter.maxVersions) {
                let bytes = some.reduce(0) { $0 + $1.key.utf8.count + 16 }
                try writer.add(mirror.versions.thinStep(some, keepingTwo: keepsTwo), mirror, bytes: bytes)
            }
        }
    }
}

/// Selects those of a record's new versions that `Thinning` would keep, so that only they are stored. Holds up to three of
/// them, each of which may be as large as the largest stored record.
struct NeededVersions {
    private(set) var versions: [MirrorVersionRecord] = []

    /// Adds the next version.
    mutating func take(_ version: MirrorVersionRecord, makesRow: Bool) {
        if makesRow { versions.removeAll() }
        if versions.count == 3 { versions.removeLast() }
        versions.append(version)
    }
}
