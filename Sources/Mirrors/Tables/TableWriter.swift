import LogStore
import Postgres
import Tree

/// Writes what a stretch of the log does to mirrors' tables, inside of a transaction that is open on the target.
///
/// Statements are gathered over all mirrors and sent together, so that a small stretch costs one round trip. Of a large one the
/// target works on some rows while the next are read and projected.
///
///     PendingChanges of each mirror
///       ├─ emptied ranges ──► delete the range              1. remove: the last mirror first
///       ├─ gone records ────► delete the rows
///       │
///       ├─ known records ────────────────────────────┐      2. put: the first mirror first
///       ├─ unknown records ── read from the tree ────┼─► project ─► upsert, or delete
///       └─ emptied ranges that are to be reloaded ───┘      └─► values that do not fit: errors
///                 │
///                 ▼
///     steps: the gathered statements of all mirrors
///       ├─ 5,000 rows or 8 MiB ──► sendAhead: send, and go on without the results
///       └─ end, or a question ───► flush: send, and wait for the results
///
/// At most one pipeline is sent ahead: `sendAhead` and `flush` first receive the results of the one before. An upsert that
/// writes fewer rows than it was given is an error, as a trigger or a rule of the table kept rows out. For a mirror that is
/// careful, the writer first sends what was gathered, and then finds the rows that the table refuses (`TableWriter+Careful.swift`).
struct TableWriter {
    let connection: PostgresConnection
    private var steps: [PipelineStep] = []
    /// Whose each step is.
    private var owners: [Owner] = []
    private var rowsGathered = 0
    private var bytesGathered = 0
    /// Whose the steps are that were sent ahead: the connection can do nothing else until their answers are received.
    private var ahead: [Owner]?

    /// The mirror of a step, and how many rows the step has to write; nil for a step whose rows are not counted.
    private struct Owner {
        let mirror: String
        var rows: Int?
    }

    /// More than this goes at once, not with the rest.
    static let maxRows = 5_000
    private static let maxBytes = 8 << 20
    /// Records that are asked for in one query.
    static let recordsAtOnce = 1_000

    init(_ connection: PostgresConnection) { self.connection = connection }

    /// What a stretch of the log does to one table.
    private struct Work {
        var emptied: [PendingChanges.Emptied] = []
        var gone: [[Key]] = []
        var known: [Record] = []
        var unknown: [(keys: [Key], stamp: Stamp)] = []
    }

    private typealias Record = (keys: [Key], value: Node, stamp: Stamp)

    /// Adds what `pending` of the mirrors says. `source` has a snapshot open, which is asked for what the log doesn't say.
    ///
    /// Rows are removed in the reverse order of the mirrors, before any rows are put, so that a table may refer to one before it.
    mutating func write(_ mirrors: inout [ActiveMirror], from source: LogConnection) throws {
        let works = mirrors.indices.map { Self.takeWork(of: &mirrors[$0]) }
        for index in mirrors.indices.reversed() { try remove(works[index], &mirrors[index], from: source) }
        for index in mirrors.indices { try put(works[index], &mirrors[index], from: source) }
    }

    /// The same for one mirror.
    mutating func write(_ mirror: inout ActiveMirror, from source: LogConnection) throws {
        let work = Self.takeWork(of: &mirror)
        try remove(work, &mirror, from: source)
        try put(work, &mirror, from: source)
    }

    private static func takeWork(of mirror: inout ActiveMirror) -> Work {
        var work = Work()
        mirror.pending.visit(
            ranges: { work.emptied.append($0) },
            records: { keys, record in
                switch record {
                case .known(.null, _): work.gone.append(keys)
                case .known(let value, let stamp): work.known.append((keys, value, stamp))
                case .unknown(let stamp): work.unknown.append((keys, stamp))
                }
            })
        mirror.pending.removeAll()
        return work
    }

    private mutating func remove(_ work: Work, _ mirror: inout ActiveMirror, from source: LogConnection) throws {
        try empty(work, &mirror, from: source)
        for some in work.gone.chunked(Self.maxRows) {
            try removeErrors(of: some, mirror)
            try delete(some, &mirror)
        }
    }

    private mutating func put(_ work: Work, _ mirror: inout ActiveMirror, from source: LogConnection) throws {
        for start in stride(from: 0, to: work.known.count, by: Self.maxRows) {
            try write(work.known[start..<min(start + Self.maxRows, work.known.count)], &mirror)
        }
        for start in stride(from: 0, to: work.unknown.count, by: Self.recordsAtOnce) {
            let some = work.unknown[start..<min(start + Self.recordsAtOnce, work.unknown.count)]
            let values = try source.readSubtrees(
                mirror.namespace, some.map { mirror.definition.pattern.path(of: $0.keys) })
            let records = zip(some, values).map { (keys: $0.keys, value: $1.value, stamp: $0.stamp) }
            try write(records[...], &mirror)
        }
        for range in work.emptied {
            if let stamp = range.reloaded { try reload(range.keys, from: stamp, &mirror, from: source) }
        }
    }

    /// Sends what was gathered, and `last` behind it.
    mutating func flush(_ last: [PipelineStep] = []) throws { _ = try send(last) }

    /// Sends what was gathered and questions behind it, each with the mirror that asks it, in one round trip.
    mutating func flush(asking questions: [(step: PipelineStep, mirror: ActiveMirror)]) throws -> [PostgresResult] {
        for question in questions {
            steps.append(question.step)
            owners.append(Owner(mirror: question.mirror.name))
        }
        return questions.isEmpty ? [] : try send([]).suffix(questions.count)
    }

    private mutating func send(_ last: [PipelineStep]) throws -> [PostgresResult] {
        try receiveAhead()
        let (gathered, owners) = takeGathered()
        // Before a transaction is committed, it is known that its rows were written.
        guard !last.isEmpty, owners.contains(where: { $0.rows != nil }) else { return try run(gathered + last, owners) }
        _ = try run(gathered, owners)
        return try run(last, [])
    }

    private func run(_ steps: [PipelineStep], _ owners: [Owner]) throws -> [PostgresResult] {
        do throws(PostgresError) {
            let results = try connection.pipeline(steps)
            try Self.count(results, owners)
            return results
        } catch {
            throw Self.error(error, owners)
        }
    }

    /// A trigger or a rule of a table may keep rows out without an error.
    private static func count(_ results: [PostgresResult], _ owners: [Owner]) throws(PostgresError) {
        for (step, owner) in owners.enumerated() where step < results.count {
            guard let rows = owner.rows, results[step].affectedRows < rows else { continue }
            throw .rowsKeptOut(sent: rows, written: results[step].affectedRows, step: step)
        }
    }

    /// Sends what was gathered and does not wait for what becomes of it, but for what became of the last that was sent so.
    mutating func sendAhead() throws {
        guard !steps.isEmpty else { return }
        try receiveAhead()
        let (gathered, owners) = takeGathered()
        do throws(PostgresError) {
            try connection.sendPipeline(gathered)
        } catch {
            throw Self.error(error, owners)
        }
        ahead = owners
    }

    private mutating func receiveAhead() throws {
        guard let owners = ahead else { return }
        ahead = nil
        do throws(PostgresError) {
            try Self.count(try connection.receivePipeline(), owners)
        } catch {
            throw Self.error(error, owners)
        }
    }

    private mutating func takeGathered() -> (steps: [PipelineStep], owners: [Owner]) {
        defer {
            steps.removeAll()
            owners.removeAll()
            rowsGathered = 0
            bytesGathered = 0
        }
        return (steps, owners)
    }

    private static func error(_ error: PostgresError, _ owners: [Owner]) -> MirrorError {
        if !error.endsConnection, let step = error.step, step < owners.count {
            return .table(mirror: owners[step].mirror, error)
        }
        return .database(error)
    }

    /// Gathers a statement.
    ///
    /// - Parameters:
    ///   - bytes: about what its parameters weigh, where that may be much.
    ///   - rows: how many rows it has to write; nil where nobody counts them.
    mutating func add(_ step: PipelineStep, _ mirror: ActiveMirror, bytes: Int = 0, rows: Int? = nil) throws {
        steps.append(step)
        owners.append(Owner(mirror: mirror.name, rows: rows))
        bytesGathered += bytes
        if bytesGathered >= Self.maxBytes { try sendAhead() }
    }

    /// Sends what was gathered, if something of it is of this mirror, which asks the database next.
    mutating func flush(before mirror: ActiveMirror) throws {
        if ahead != nil || owners.contains(where: { $0.mirror == mirror.name }) { try flush() }
    }

    // MARK: Rows

    private mutating func empty(_ work: Work, _ mirror: inout ActiveMirror, from source: LogConnection) throws {
        let ranges = work.emptied.map(\.keys)
        if mirror.mayHaveErrors {
            for keys in ranges {
                let path = mirror.definition.pattern.path(above: keys).description
                try add(MirrorErrors.removeStep(below: path, of: mirror.asGeneration), mirror)
            }
        }
        for (count, some) in Dictionary(grouping: ranges, by: \.count) {
            let step = PipelineStep.prepared(
                mirror.table.deleteRanges(keyCount: count), RowEncoder.keys(mirror.table, some))
            guard mirror.isCareful else {
                try add(step, mirror)
                continue
            }
            try flush()
            let misfits = try emptyCarefully(step, some, mirror) { [mirror] range in
                let put = try Self.keysPut(in: range, by: work, mirror, from: source)
                return { put.contains($0) }
            }
            try deferConstraints(mirror)
            try store(misfits, &mirror)
        }
    }

    /// The records of an emptied range that are written again.
    private static func keysPut(
        in range: [Key], by work: Work, _ mirror: ActiveMirror, from source: LogConnection
    ) throws -> Set<[Key]> {
        var keys = Set(work.known.lazy.map(\.keys).filter { $0.starts(with: range) })
        guard work.emptied.contains(where: { $0.keys == range && $0.reloaded != nil }) else { return keys }
        try RecordStream.read(mirror.namespace, mirror.definition.pattern, above: range, source) { found, _, _ in
            keys.insert(found)
        }
        return keys
    }

    private mutating func removeErrors(of keys: [[Key]], _ mirror: ActiveMirror) throws {
        guard mirror.mayHaveErrors else { return }
        let paths = keys.map { mirror.definition.pattern.path(of: $0).description }
        try add(MirrorErrors.removeStep(paths, of: mirror.asGeneration), mirror)
    }

    private mutating func delete(_ keys: [[Key]], _ mirror: inout ActiveMirror) throws {
        guard !keys.isEmpty else { return }
        guard mirror.isCareful else {
            return try add(.prepared(mirror.table.deleteRows, RowEncoder.keys(mirror.table, keys)), mirror)
        }
        try flush()
        var misfits: [ConversionError] = []
        try deleteCarefully(keys[...], &misfits, mirror)
        try deferConstraints(mirror)
        try store(misfits, &mirror)
    }

    private mutating func write(
        _ records: ArraySlice<Record>, _ mirror: inout ActiveMirror
    ) throws {
        var rows: [ProjectedRow] = []
        rows.reserveCapacity(records.count)
        var gone: [[Key]] = []
        var misfits: [ConversionError] = []
        for record in records {
            if let row = mirror.projector.row(
                record.value, keys: record.keys, stamp: record.stamp, misfits: &misfits)
            {
                rows.append(row)
            } else {
                gone.append(record.keys)
            }
        }
        try removeErrors(of: records.map(\.keys), mirror)
        try delete(gone, &mirror)
        try upsert(rows, &misfits, mirror)
        try store(misfits, &mirror)
    }

    private mutating func upsert(
        _ rows: [ProjectedRow], _ misfits: inout [ConversionError], _ mirror: ActiveMirror
    ) throws {
        guard !rows.isEmpty else { return }
        if mirror.isCareful {
            try flush()
            try upsertCarefully(rows[...], &misfits, mirror)
            return try deferConstraints(mirror)
        }
        let parameters = RowEncoder.upsert(mirror.table, rows)
        rowsGathered += rows.count
        try add(
            .prepared(mirror.table.upsert, parameters), mirror, bytes: parameters.byteCount, rows: rows.count)
        if rowsGathered >= Self.maxRows { try sendAhead() }
    }

    private mutating func store(_ misfits: [ConversionError], _ mirror: inout ActiveMirror) throws {
        guard !misfits.isEmpty else { return }
        mirror.mayHaveErrors = true
        let waiting = misfits.filter { ActiveMirror.isForNow($0.reason) }
        if !waiting.isEmpty {
            mirror.waiting += waiting.map(\.record)
            try add(mirror.storing(waiting, areWaiting: true), mirror)
        }
        let others = misfits.filter { !ActiveMirror.isForNow($0.reason) }
        if !others.isEmpty { try add(mirror.storing(others), mirror) }
    }

    // MARK: Ranges

    /// Fills an emptied range with all that the tree has there.
    ///
    /// - Parameter floor: the least entry that the rows get. The tree does not know of an entry that removed a part of a record, and rows
    ///   may have had its number.
    private mutating func reload(
        _ keys: [Key], from floor: Stamp, _ mirror: inout ActiveMirror, from source: LogConnection
    ) throws {
        var gathered: [(keys: [Key], value: Node, version: Int64)] = []
        var seqs: Set<Int64> = []
        var times: [Int64: Int64] = [:]
        // The times of entries can't be asked for while the tree streams in on the same session.
        try RecordStream.versions(mirror.namespace, mirror.definition.pattern, above: keys, source) { seqs.insert($0) }
        for part in Array(seqs).chunked(10_000) {
            times.merge(try source.commitTimes(mirror.namespace, part)) { $1 }
        }
        var writer = self
        let flush = { (mirror: inout ActiveMirror) throws in
            let records = gathered.map { record in
                (
                    keys: record.keys, value: record.value,
                    stamp: Stamp(seq: max(record.version, floor.seq), committedAt: times[record.version])
                )
            }
            gathered.removeAll(keepingCapacity: true)
            try writer.write(records[...], &mirror)
        }
        try RecordStream.read(mirror.namespace, mirror.definition.pattern, above: keys, source) {
            keys, value, version in
            gathered.append((keys, value, version))
            if gathered.count >= Self.recordsAtOnce { try flush(&mirror) }
        }
        try flush(&mirror)
        self = writer
    }
}

extension Array {
    func chunked(_ size: Int) -> [[Element]] {
        stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}
