import LogStore
import Postgres
import Tree

/// Writes what a page of entries does to records into a mirror that keeps what its records were: their versions, and the rows
/// that these make, inside of a transaction that is open on the target.
///
/// Each entry counts, and a record has at most one version of an entry. What was there before is known of the versions
/// themselves: the tree is never asked. Memory holds a page of entries and a bounded slice of records.
struct HistoryWriter {
    let source: LogConnection
    /// The longest record that is kept.
    let maxRecordBytes: Int
    /// Entries of the page that are to be taken yet.
    private var entries: ArraySlice<LoggedEntry> = []
    /// What the entries up to there do to single records.
    private var writes = RecordWrites()
    /// What is known of the records below places that entries replace.
    private var ranges: RangeRecords
    /// Places of which `begin` asked.
    private var askedPlaces: [[Key]] = []
    /// Versions that are written together with the next ones of their records.
    private var gathered: [MirrorVersionRecord] = []
    private var gatheredBytes = 0
    /// Records that were too large.
    private var refusals: [ConversionError] = []

    /// More than this goes at once.
    static let maxVersions = 5_000
    static let maxBytes = 4 << 20
    /// More changes of single records are not gathered at once.
    private static let maxWrites = 20_000
    /// About what a version takes beside its key and record.
    private static let versionBytes = 100

    init(
        _ source: LogConnection, maxRecordBytes: Int = StoredRecord.maxBytes,
        rangeRecords: Int = RangeRecords.mostRecords
    ) {
        self.source = source
        ranges = RangeRecords(upTo: rangeRecords)
        self.maxRecordBytes = maxRecordBytes
    }

    /// Takes up a page, of which some entries may be behind the mirror's place. Returns what has to be asked first, if anything;
    /// `finish` takes the answer.
    ///
    /// - Parameter others: so many mirrors ask at the same time.
    mutating func begin(_ page: [LoggedEntry], _ mirror: ActiveMirror, besides others: Int) -> PipelineStep? {
        entries = page.drop { $0.entry.seq <= mirror.seq }
        askedPlaces = unknownPlaces(mirror)
        guard askedPlaces.isEmpty else { return ranges.question(askedPlaces, mirror) }
        gather(mirror)
        guard !writes.isEmpty else { return nil }
        return NewestRecords.question(writes.keys, mirror, upTo: MirrorVersions.bytesAtOnce / (others + 1))
    }

    /// Writes what the page does.
    mutating func finish(
        _ mirror: inout ActiveMirror, _ writer: inout TableWriter, _ answer: PostgresResult?
    ) throws {
        if let answer, !askedPlaces.isEmpty {
            ranges.take(try MirrorVersions.keys(answer), of: askedPlaces)
            gather(mirror)
            try write(nil, &mirror, &writer)
        } else {
            try write(answer, &mirror, &writer)
        }
        while let entry = entries.first?.entry {
            try takeWhole(entry, &mirror, &writer)
            gather(mirror)
            try write(nil, &mirror, &writer)
        }
    }

    /// Takes an entry that `gather` came to and could not take, or finds out what it needs to take it.
    private mutating func takeWhole(_ entry: Entry, _ mirror: inout ActiveMirror, _ writer: inout TableWriter) throws {
        if entry.isBulk {
            // What is elsewhere is for `gather` to pass by.
            guard mirror.definition.pattern.captured(entry.path) != nil else { return }
            entries.removeFirst()
            ranges.forget()
            return try load(entry, &mirror, &writer)
        }
        let changes = Self.changes(entry, mirror)
        switch ranges.reach(of: changes) {
        case .known: break
        case .unknown:
            let places = unknownPlaces(mirror)
            let answers = try writer.flush(asking: [(ranges.question(places, mirror), mirror)])
            for answer in answers { ranges.take(try MirrorVersions.keys(answer), of: places) }
        case .large:
            entries.removeFirst()
            ranges.forget(around: changes)
            try replace(entry, &mirror, &writer)
        }
    }

    /// The places that entries replace, up to one that is gathered by itself anyway.
    private func unknownPlaces(_ mirror: ActiveMirror) -> [[Key]] {
        let pattern = mirror.definition.pattern
        let some = entries.lazy.map(\.entry).prefix { !$0.isBulk || pattern.captured($0.path) == nil }
        return ranges.unknownPlaces(of: some.map { Self.changes($0, mirror) })
    }

    private static func changes(_ entry: Entry, _ mirror: ActiveMirror) -> [RecordChange] {
        entry.changes.compactMap { RecordChange($0, mirror.definition.pattern) }
    }

    // MARK: Single records

    /// Gathers what entries do to single records, up to one that does more to others than is known or than can be gathered.
    private mutating func gather(_ mirror: ActiveMirror) {
        let pattern = mirror.definition.pattern
        while writes.count < Self.maxWrites, let entry = entries.first?.entry {
            if entry.isBulk {
                if pattern.captured(entry.path) != nil { return }
            } else {
                let changes = Self.changes(entry, mirror)
                guard ranges.reach(of: changes) == .known else { return }
                if !changes.isEmpty { gather(changes, EntryStamp(entry), mirror) }
            }
            entries.removeFirst()
        }
    }

    private mutating func gather(_ changes: [RecordChange], _ stamp: EntryStamp, _ mirror: ActiveMirror) {
        func add(_ keys: [Key], _ place: Path, _ value: Node) {
            guard mirror.projector.holds(keys) else { return }
            writes.add(keys, place, value, stamp)
            ranges.add(keys)
        }
        for change in changes {
            switch change {
            case .record(let keys, let place, let value): add(keys, place, value)
            case .range(let keys, let value, let part):
                for record in ranges.remove(below: keys) { writes.add(record, .root, .null, stamp) }
                RecordChange.each(in: value, mirror.definition.pattern, part: part, keys) { add($0, .root, $1) }
            }
        }
    }

    /// Writes the versions and rows of what was gathered of single records.
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
                        try gather(stored, record.keys, mirror, &writer)
                    }
                    if rows.work.rows.count >= Self.maxVersions || rows.byteCount >= Self.maxBytes {
                        try put(&rows, &mirror, &writer)
                    }
                }
                rows.end()
                for version in needed.versions { try gather(version, record.keys, mirror, &writer) }
                if let last { thinning.note(key, rowSeq: rows.lastRowSeq, lastSeq: last) }
            }
            try store(&mirror, &writer)
            try put(&rows, &mirror, &writer)
        }
        if mirror.definition.keeps == .latest { try thinning.thin(mirror, &writer) }
    }

    // MARK: Versions

    /// Adds a version to those that are stored together.
    mutating func gather(
        _ version: MirrorVersionRecord, _ keys: [Key], _ mirror: ActiveMirror, _ writer: inout TableWriter
    ) throws {
        if version.isTooLarge { refusals.append(tooLarge(keys, version.seq, mirror)) }
        gathered.append(version)
        gatheredBytes += version.key.utf8.count + (version.record?.count ?? 0) + Self.versionBytes
        if gathered.count >= Self.maxVersions || gatheredBytes >= Self.maxBytes { try storeVersions(mirror, &writer) }
    }

    /// Stores what was gathered, and says what was too large.
    mutating func store(_ mirror: inout ActiveMirror, _ writer: inout TableWriter) throws {
        try storeVersions(mirror, &writer)
        guard !refusals.isEmpty else { return }
        mirror.mayHaveErrors = true
        try writer.add(mirror.storing(mirror.definition.isHistory ? refusals : newest(of: refusals)), mirror)
        refusals.removeAll()
    }

    private mutating func storeVersions(_ mirror: ActiveMirror, _ writer: inout TableWriter) throws {
        guard !gathered.isEmpty else { return }
        try writer.add(mirror.versions.storeStep(gathered), mirror, bytes: gatheredBytes)
        gathered.removeAll(keepingCapacity: true)
        gatheredBytes = 0
    }

    /// One of each record, where there is one row of each.
    private func newest(of refusals: [ConversionError]) -> [ConversionError] {
        Array(Dictionary(refusals.map { (Key($0.record), $0) }) { $1 }.values)
    }

    private func tooLarge(_ keys: [Key], _ seq: Int64, _ mirror: ActiveMirror) -> ConversionError {
        let path = mirror.definition.pattern.path(of: keys).description
        return ConversionError(
            record: path, column: "", path: path, seq: seq, value: nil,
            reason:
                "the record has more than \(maxRecordBytes) bytes as JSON, the most that is kept; it has no row until it is written as a whole"
        )
    }
}

/// Goes through some records with what the newest versions say of them, a slice at a time.
struct NewestRecords {
    /// A record and what it is; nil where it is too large to be kept.
    struct Found {
        let keys: [Key]
        let value: Node?
        /// Nothing is known of it.
        let isFirst: Bool
    }

    private let keys: [[Key]]
    private var position = 0
    private var count = MirrorVersions.keysAtOnce
    private var answer: PostgresResult?

    /// - Parameter answer: to `question` for these records, where it was asked already.
    init(_ keys: [[Key]], _ answer: PostgresResult? = nil) {
        self.keys = keys
        self.answer = answer
    }

    /// What is asked for the first of some records; nothing comes where they are large.
    static func question(_ keys: [[Key]], _ mirror: ActiveMirror, upTo bytes: Int) -> PipelineStep {
        mirror.versions.newestStep(
            of: keys.prefix(MirrorVersions.keysAtOnce).map { RecordKey.text($0) }, upTo: bytes, least: 0)
    }

    /// The next records; nil behind the last.
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

/// Versions that a table does not need which keeps the last row of each record: what is older than the last row, and between
/// the version that removed it and the newest.
struct Thinning {
    private var rows: [(key: String, seq: Int64)] = []
    private var others: [(key: String, seq: Int64)] = []

    /// Notes what a record's new versions are.
    ///
    /// - Parameter rowSeq: the newest of them that makes a row; nil where none does.
    mutating func note(_ key: String, rowSeq: Int64?, lastSeq: Int64) {
        if let rowSeq { rows.append((key, rowSeq)) }
        if rowSeq != lastSeq { others.append((key, lastSeq)) }
    }

    /// Removes them.
    func thin(_ mirror: ActiveMirror, _ writer: inout TableWriter) throws {
        for (versions, keepsTwo) in [(rows, false), (others, true)] {
            for some in versions.chunked(HistoryWriter.maxVersions) {
                let bytes = some.reduce(0) { $0 + $1.key.utf8.count + 16 }
                try writer.add(mirror.versions.thinStep(some, keepingTwo: keepsTwo), mirror, bytes: bytes)
            }
        }
    }
}

/// Of a record's new versions, those that `Thinning` would leave: they alone are stored. Holds three of them, each of which may be as
/// large as a record that is kept.
struct NeededVersions {
    private(set) var versions: [MirrorVersionRecord] = []

    /// Takes the next version.
    mutating func take(_ version: MirrorVersionRecord, makesRow: Bool) {
        if makesRow { versions.removeAll() }
        if versions.count == 3 { versions.removeLast() }
        versions.append(version)
    }
}
