import LogStore
import Postgres
import Tree

/// Writes the effect of log entries to mirrors' tables, in the open transaction of the target.
///
/// Statements of all mirrors are collected and sent together, so that a few entries cost one round trip. With many entries, the
/// target works on some rows while the next ones are read and projected.
///
///     PendingChanges of each mirror
///       ├─ emptied ranges ──► delete the range              1. remove: the last mirror first
///       ├─ removed records ─► delete the rows
///       │
///       ├─ known records ────────────────────────────┐      2. put: the first mirror first
///       ├─ unknown records ── read from the tree ────┼─► project ─► upsert, or delete
///       └─ emptied ranges that are to be reloaded ───┘      └─► conversion errors
///                 │
///                 ▼
///     steps: the collected statements of all mirrors
///       ├─ 5,000 rows or 8 MiB ──► sendAhead: send, and continue without the results
///       └─ end, or a query ──────► flush: send, and wait for the results
///
/// At most one pipeline is sent ahead: `sendAhead` and `flush` first receive the results of the previous one. An upsert that
/// writes fewer rows than it was given is an error, because a trigger or a rule of the table has skipped rows. For a careful
/// mirror, the writer first sends the collected statements, and then finds the rows that the table rejects
/// (`TableWriter+Careful.swift`).
struct TableWriter {
    let connection: PostgresConnection
    private var steps: [PipelineStep] = []
    /// The owner of each step.
    private var owners: [Owner] = []
    private var collectedRows = 0
    private var collectedBytes = 0
    /// The owners of the steps that were sent ahead. The connection can't be used otherwise until their results are received.
    private var ahead: [Owner]?

    /// The mirror of a step, and the number of rows that the step must write; nil if its rows are not counted.
    private struct Owner {
        let mirror: String
        var rows: Int?
    }

    /// The maximum number of rows sent at once.
    static let maxRows = 5_000
    private static let maxBytes = 8 << 20
    /// The number of records read by one query.
    static let recordsAtOnce = 1_000

    init(_ connection: PostgresConnection) { self.connection = connection }

    /// The changes of one table.
    private struct Work {
        var emptied: [PendingChanges.Emptied] = []
        var gone: [[Key]] = []
        var known: [Record] = []
        var unknown: [(keys: [Key], stamp: Stamp)] = []
    }

    private typealias Record = (keys: [Key], value: Node, stamp: Stamp)

    /// Adds statements for the `pending` changes of the mirrors. Values that the log does not contain are read from `source`,
    /// which has a snapshot open.
    ///
    /// Rows are removed in the reverse order of the mirrors, before any rows are written, so that a table may refer to one
    /// before it.
    mutating func write(_ mirrors: inout [ActiveMirror], from source: LogConnection) throws {
        let works = mirrors.indices.map { Self.takeWork(of: &mirrors[$0]) }
        for index in mirrors.indices.reversed() { try remove(works[index], &mirrors[index], from: source) }
        for index in mirrors.indices { try put(works[index], &mirrors[index], from: source) }
    }

    /// Adds statements for the `pending` changes of one mirror.
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

    /// Sends the collected statements, and `last` after them.
    mutating func flush(_ last: [PipelineStep] = []) throws { _ = try send(last) }

    /// Sends the collected statements, and queries after them, each with its mirror, in one round trip. Returns the results of
    /// the queries.
    mutating func flush(asking questions: [(step: PipelineStep, mirror: ActiveMirror)]) throws -> [PostgresResult] {
        for question in questions {
            steps.append(question.step)
            owners.append(Owner(mirror: question.mirror.name))
        }
        return questions.isEmpty ? [] : try send([]).suffix(questions.count)
    }

    private mutating func send(_ last: [PipelineStep]) throws -> [PostgresResult] {
        try receiveAhead()
        let (collected, owners) = takeCollected()
        // The rows must be known to be written before the transaction is committed.
        guard !last.isEmpty, owners.contains(where: { $0.rows != nil }) else {
            return try run(collected + last, owners)
        }
        _ = try run(collected, owners)
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

    /// Throws if a trigger or a rule of a table has skipped rows, which is no error for the server.
    private static func count(_ results: [PostgresResult], _ owners: [Owner]) throws(PostgresError) {
        for (step, owner) in owners.enumerated() where step < results.count {
            guard let rows = owner.rows, results[step].affectedRows < rows else { continue }
            throw .rowsKeptOut(sent: rows, written: results[step].affectedRows, step: step)
        }
    }

    /// Sends the collected statements without waiting for their results. Waits only for the results of those sent ahead before.
    mutating func sendAhead() throws {
        guard !steps.isEmpty else { return }
        try receiveAhead()
        let (collected, owners) = takeCollected()
        do throws(PostgresError) {
            try connection.sendPipeline(collected)
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

    private mutating func takeCollected() -> (steps: [PipelineStep], owners: [Owner]) {
        defer {
            steps.removeAll()
            owners.removeAll()
            collectedRows = 0
            collectedBytes = 0
        }
        return (steps, owners)
    }

    private static func error(_ error: PostgresError, _ owners: [Owner]) -> MirrorError {
        if !error.endsConnection, let step = error.step, step < owners.count {
            return .table(mirror: owners[step].mirror, error)
        }
        return .database(error)
    }

    /// Adds a statement to the collected ones.
    ///
    /// - Parameters:
    ///   - bytes: the approximate size of its parameters, if they may be large.
    ///   - rows: the number of rows that it must write, or nil if they are not counted.
    mutating func add(_ step: PipelineStep, _ mirror: ActiveMirror, bytes: Int = 0, rows: Int? = nil) throws {
        steps.append(step)
        owners.append(Owner(mirror: mirror.name, rows: rows))
        collectedBytes += bytes
        if collectedBytes >= Self.maxBytes { try sendAhead() }
    }

    /// Sends the collected statements if some of them belong to this mirror, which will query the database.
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
            let conversionErrors = try emptyCarefully(step, some, mirror) { [mirror] range in
                let put = try Self.keysPut(in: range, by: work, mirror, from: source)
                return { put.contains($0) }
            }
            try deferConstraints(mirror)
            try store(conversionErrors, &mirror)
        }
    }

    /// Returns the records of an emptied range that are written again.
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
        var conversionErrors: [ConversionError] = []
        try deleteCarefully(keys[...], &conversionErrors, mirror)
        try deferConstraints(mirror)
        try store(conversionErrors, &mirror)
    }

    private mutating func write(
        _ records: ArraySlice<Record>, _ mirror: inout ActiveMirror
    ) throws {
        var rows: [ProjectedRow] = []
        rows.reserveCapacity(records.count)
        var gone: [[Key]] = []
        var conversionErrors: [ConversionError] = []
        for record in records {
            if let row = mirror.projector.row(
                record.value, keys: record.keys, stamp: record.stamp, conversionErrors: &conversionErrors)
            {
                rows.append(row)
            } else {
                gone.append(record.keys)
            }
        }
        try removeErrors(of: records.map(\.keys), mirror)
        try delete(gone, &mirror)
        try upsert(rows, &conversionErrors, mirror)
        try store(conversionErrors, &mirror)
    }

    private mutating func upsert(
        _ rows: [ProjectedRow], _ conversionErrors: inout [ConversionError], _ mirror: ActiveMirror
    ) throws {
        guard !rows.isEmpty else { return }
        if mirror.isCareful {
            try flush()
            try upsertCarefully(rows[...], &conversionErrors, mirror)
            return try deferConstraints(mirror)
        }
        let parameters = RowEncoder.upsert(mirror.table, rows)
        collectedRows += rows.count
        try add(
            .prepared(mirror.table.upsert, parameters), mirror, bytes: parameters.byteCount, rows: rows.count)
        if collectedRows >= Self.maxRows { try sendAhead() }
    }

    private mutating func store(_ conversionErrors: [ConversionError], _ mirror: inout ActiveMirror) throws {
        guard !conversionErrors.isEmpty else { return }
        mirror.mayHaveErrors = true
        let waiting = conversionErrors.filter { ActiveMirror.isForNow($0.reason) }
        if !waiting.isEmpty {
            mirror.waiting += waiting.map(\.record)
            try add(mirror.storing(waiting, areWaiting: true), mirror)
        }
        let others = conversionErrors.filter { !ActiveMirror.isForNow($0.reason) }
        if !others.isEmpty { try add(mirror.storing(others), mirror) }
    }

    // MARK: Ranges

    /// Fills an emptied range with the records that the tree has there.
    ///
    /// - Parameter floor: the lowest seq of the rows. The tree does not know of an entry that removed a part of a record, and
    ///   rows may have had its seq.
    private mutating func reload(
        _ keys: [Key], from floor: Stamp, _ mirror: inout ActiveMirror, from source: LogConnection
    ) throws {
        var collected: [(keys: [Key], value: Node, version: Int64)] = []
        var seqs: Set<Int64> = []
        var times: [Int64: Int64] = [:]
        // The times of entries can't be queried while the tree streams in on the same session.
        try RecordStream.versions(mirror.namespace, mirror.definition.pattern, above: keys, source) { seqs.insert($0) }
        for part in Array(seqs).chunked(10_000) {
            times.merge(try source.commitTimes(mirror.namespace, part)) { $1 }
        }
        var writer = self
        let flush = { (mirror: inout ActiveMirror) throws in
            let records = collected.map { record in
                (
                    keys: record.keys, value: record.value,
                    stamp: Stamp(seq: max(record.version, floor.seq), committedAt: times[record.version])
                )
            }
            collected.removeAll(keepingCapacity: true)
            try writer.write(records[...], &mirror)
        }
        try RecordStream.read(mirror.namespace, mirror.definition.pattern, above: keys, source) {
            keys, value, version in
            collected.append((keys, value, version))
            if collected.count >= Self.recordsAtOnce { try flush(&mirror) }
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
