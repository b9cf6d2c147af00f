public import LogStore
public import Postgres
import Tree

/// Builds a mirror's table beside the present one, brings it to the log's head, and replaces the present one in one
/// transaction. Readers see the old table until then, and the complete new one from then on.
///
/// Belongs to one thread, which it blocks. Unfinished tables of earlier builds are removed.
///
///     log        ──────── entry 100 ─────────────────────────────── entry 180 ────── entry 184 ─────►
///                            │ snapshot                                │                │
///     new table           copy records, make indexes ── catch up ── verify ── catch up, swap ──► the mirror's table
///     old table           readers use it, and it follows the log ─────────── cursor locked ────► dropped
///
/// 1. `fill` copies the records of one snapshot into a table with a name of its own (`AbandonedTables.shadowName`), and then creates
///    the indexes. If an index can't hold a row, `fillCarefully` fills the table again, with the indexes there first.
/// 2. `CatchingUp.comeNear` applies the entries since the snapshot, in one transaction for each step, until at most 1,000 are left.
/// 3. If the caller wants it, `verify` compares the new table with the tree at the head of one snapshot.
/// 4. `catchUpAndSwap` locks the old table's cursor, applies the last entries, exchanges the tables, and moves the cursor, all in
///    one transaction (`TableSwap`). If the swap waits more than two seconds for a lock, the transaction is rolled back, and a
///    later one tries again.
///
/// The new table gets the next generation. The errors of its records are stored under that generation, beside those of the old
/// table.
public final class MirrorBuilder {
    /// The progress of a build.
    public enum Progress: Sendable {
        /// The table of an interrupted build was removed.
        case removedLeftover
        case copying(rows: Int)
        case indexing
        case catchingUp(seq: Int64, head: Int64)
        /// The new table is being compared with the tree.
        case verifying(rows: Int)
        case swapping
    }

    /// The result of a build.
    public struct Outcome: Sendable {
        public let rows: Int
        public let conversionErrors: Int
        /// The log position of the table.
        public let seq: Int64
        /// The log position at which the table was compared with the tree, or nil if it was not compared.
        public let verifiedSeq: Int64?
        /// Sentences about user-defined objects on the old table, such as indexes, that the new one lacks.
        public let lost: [String]
        /// The beginning of the table's history, or nil for a table without one.
        public var begins: MirrorHistoryBeginning?
    }

    let source: LogConnection
    let target: PostgresConnection
    /// For queries while the other two connections stream.
    private let lookup: LogConnection
    private let errorWriter: PostgresConnection
    let mirror: CatalogMirror
    let definition: MirrorDefinition
    private let shadow: String
    private let verifies: Bool
    /// The maximum number of rows between two calls of `progress`.
    let rowsAtOnce: Int
    let progress: (Progress) -> Void
    private var times: [Int64: Int64] = [:]
    private var rowCount = 0
    private var errorCount = 0
    private var userDefined: UserDefinedIndexes?
    private var lost: [String] = []

    public static let maxRowsAtOnce = 5_000
    private static let swapAttempts = 60

    /// - Parameters:
    ///   - source: a session on the gateway's database; `lookup` is another one.
    ///   - target: a connection to the database of the table; `errorWriter` is another one.
    ///   - definition: the new definition. To rebuild the table unchanged, pass the mirror's own.
    ///   - verifies: whether to compare the new table with the tree before the swap.
    ///   - rowsAtOnce: the maximum number of rows between two calls of `progress`.
    ///   - progress: may block, which slows the build down.
    public init(
        source: LogConnection, lookup: LogConnection, target: PostgresConnection, errorWriter: PostgresConnection,
        mirror: CatalogMirror, definition: MirrorDefinition, verifies: Bool = false,
        rowsAtOnce: Int = MirrorBuilder.maxRowsAtOnce, progress: @escaping (Progress) -> Void = { _ in }
    ) {
        self.source = source
        self.lookup = lookup
        self.target = target
        self.errorWriter = errorWriter
        self.mirror = mirror
        self.definition = definition
        self.verifies = verifies
        self.rowsAtOnce = min(max(1, rowsAtOnce), Self.maxRowsAtOnce)
        self.progress = progress
        shadow = AbandonedTables.shadowName(mirror.id)
    }

    /// Builds and swaps. Throws `refused` if another session is building the same mirror.
    public func run() throws -> Outcome {
        try definition.checkUsable()
        guard try BuildLock.holds(mirror.id, target, .untilReleased) else { throw BuildLock.refusal(mirror.name) }
        defer { BuildLock.release(mirror.id, target) }
        try source.checkIsThere(mirror)
        let old = try MirrorCursor.of(mirror, target)
        let generation = try nextGeneration(old)
        let table = MirrorTable(definition, name: shadow, label: "build \(mirror.name) \(generation)")
        try MirrorPlan.checkTableName(of: definition, replacing: old?.definition, target)
        userDefined = try UserDefinedIndexes(of: old?.definition, shadow: shadow, target)
        do {
            if try AbandonedTables.remove(of: mirror.id, target) { progress(.removedLeftover) }
            var building = try fill(table, generation)
            let catchingUp = CatchingUp(source: source, target: target, mirror: mirror, progress: progress)
            var verifiedSeq: Int64?
            if verifies {
                try catchingUp.comeNear(&building)
                verifiedSeq = try verify(&building, catchingUp)
            }
            let repaired = try markRepaired(&building, old, catchingUp)
            let swap = TableSwap(target, mirror, from: table, replacing: old, keeping: userDefined)
            let seq = try catchUpAndSwap(
                &building, swap, catchingUp, repaired, keptVersions: old?.definition.keeps != nil)
            try source.redefineMirror(mirror.id, definition: definition.json)
            return Outcome(
                rows: rowCount, conversionErrors: errorCount, seq: seq, verifiedSeq: verifiedSeq,
                lost: lost)
        } catch {
            target.dropPipelines()
            if target.isOpen {
                if target.isInTransaction { try? target.executeScript("rollback") }
                _ = try? target.executeScript("drop table if exists \(table.qualifiedName)")
            }
            throw MirrorError(error)
        }
    }

    /// Returns a generation greater than any used before, so that errors of abandoned builds are not attributed to this build.
    private func nextGeneration(_ old: MirrorCursor?) throws -> Int64 {
        let next = (old?.generation ?? 0) + 1
        _ = try target.pipeline(
            MirrorErrors.forgetSteps(
                MirrorGeneration(namespace: mirror.namespaceID, mirror: mirror.id, generation: next), .from))
        return next
    }

    // MARK: Filling

    private func fill(_ table: MirrorTable, _ generation: Int64) throws -> ActiveMirror {
        for sql in table.createSQL { try target.executeScript(sql) }
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" no longer exists.")
        }
        defer { source.endSnapshot() }
        var building = ActiveMirror(
            id: mirror.id, namespace: mirror.namespaceID, generation: generation, table: table,
            position: LogPosition(
                seq: record.head,
                batch: try source.history(mirror.namespaceID, at: record.head)?.batch(of: record.head)),
            mayHaveErrors: false)
        building.namesToBe = IndexRename.own(of: table) + (userDefined?.namesToBe ?? [])
        try target.copyIn(table.copySQL) { writer in
            try forEachRows(of: building) { rows in
                // By index: iterating over the rows copies each row and retains its arrays.
                for index in rows.indices { try RowCopier.copy(rows[index], table, to: &writer) }
            }
        }
        building.mayHaveErrors = errorCount > 0
        progress(.indexing)
        if try !makeIndexes(table) { try fillCarefully(&building) }
        for sql in table.commentSQL { try target.executeScript(sql) }
        try target.executeScript("analyze \(table.qualifiedName)")
        return building
    }

    /// Calls `body` with the rows of all records, a batch at a time, and stores the conversion errors.
    private func forEachRows(of building: ActiveMirror, _ body: ([ProjectedRow]) throws -> Void) throws {
        try RecordBatches.forEach(mirror.namespaceID, definition.pattern, source, most: rowsAtOnce) { records in
            try body(try rows(records, building))
            progress(.copying(rows: rowCount))
        }
        if rowCount == 0 { progress(.copying(rows: 0)) }
    }

    private func rows(_ records: [RecordBatches.Record], _ building: ActiveMirror) throws -> [ProjectedRow] {
        let unknown = Set(records.map(\.version)).filter { times[$0] == nil }
        if !unknown.isEmpty {
            if times.count > 1_000_000 { times.removeAll() }
            times.merge(try lookup.commitTimes(mirror.namespaceID, Array(unknown))) { $1 }
        }
        var conversionErrors: [ConversionError] = []
        var rows: [ProjectedRow] = []
        rows.reserveCapacity(records.count)
        let projector = building.projector
        // A removed field leaves no version in the tree, so the former row's `_seq` may be higher than the tree shows. All rows
        // therefore get the seq of the fill. Most consecutive records have the same version, for example those of one import.
        var version: Int64 = -1
        var stamp = Stamp(seq: building.seq, committedAt: nil)
        for record in records {
            if version != record.version {
                version = record.version
                stamp = Stamp(seq: building.seq, committedAt: times[version])
            }
            let row = projector.row(record.value, keys: record.keys, stamp: stamp, conversionErrors: &conversionErrors)
            if let row { rows.append(row) }
        }
        rowCount += rows.count
        for some in conversionErrors.chunked(5_000) {
            _ = try errorWriter.pipeline([building.storing(Array(some))])
        }
        errorCount += conversionErrors.count
        return rows
    }

    /// Creates the indexes. Returns false if an index can't hold a row's value.
    private func makeIndexes(_ table: MirrorTable) throws -> Bool {
        do {
            for sql in table.indexSQL { try target.executeScript(sql) }
            try userDefined?.make(on: table, target)
            return true
        } catch {
            guard error.isAboutData else { throw error }
            return false
        }
    }

    /// Fills the table again if an index can't hold a row's value. With the indexes created first, that row is found and left
    /// out. Reads the tree again, on the open snapshot.
    private func fillCarefully(_ building: inout ActiveMirror) throws {
        let name = building.table.qualifiedName
        try target.executeScript("drop table \(name)")
        for sql in building.table.createSQL + building.table.indexSQL { try target.executeScript(sql) }
        try userDefined?.make(on: building.table, target)
        _ = try target.pipeline(MirrorErrors.forgetSteps(building.asGeneration, .from))
        try target.executeScript("begin")
        building.isCareful = true
        building.pending.reloadEverything(Stamp(seq: building.seq, committedAt: nil))
        var writer = TableWriter(target)
        try writer.write(&building, from: source)
        try writer.flush()
        try target.executeScript("commit")
        building.isCareful = false
        building.mayHaveErrors = true
        rowCount = Int(try target.execute("select count(*) from \(name)").int64(0, 0))
        errorCount = Int(
            try MirrorErrors.kept(target, building.asGeneration)
                + MirrorErrors.unkept(target, building.asGeneration))
    }

    // MARK: Catching up

    /// Marks the rows that the new table corrects. Returns nil if there are none.
    private func markRepaired(
        _ building: inout ActiveMirror, _ old: MirrorCursor?, _ catchingUp: CatchingUp
    ) throws -> RepairedRows? {
        guard verifies, let old, let rows = try RepairedRows(old.definition, building.table, target) else { return nil }
        try catchingUp.comeNear(&building)
        return try rows.mark() ? rows : nil
    }

    private func catchUpAndSwap(
        _ building: inout ActiveMirror, _ swap: TableSwap, _ catchingUp: CatchingUp, _ repaired: RepairedRows?,
        keptVersions: Bool
    ) throws -> Int64 {
        for attempt in 1... {
            try catchingUp.comeNear(&building)
            progress(.swapping)
            let before = building
            do {
                try swap.begin()
                // The old table can't move any more, and the new one passes it.
                try catchingUp.reachHead(&building)
                try repaired?.settle(at: building.seq)
                // A mirror that no longer keeps removed records does not need its versions.
                lost = try swap.finish(
                    definition, generation: building.generation, at: building.position,
                    keptVersions ? [building.versions.forgetStep()] : [])
                return building.seq
            } catch let error as PostgresError where error.sqlState == "55P03" || error.isRetriable {
                // A long query reads the old table. Waiting for its lock would block new readers.
                building = before
                try target.executeScript("rollback")
                guard attempt < Self.swapAttempts else { throw error }
                _ = try target.execute("select pg_sleep(0.5)")
            }
        }
        return building.seq
    }
}

extension MirrorBuilder {
    /// Brings the new table to the head of one snapshot of the tree, and compares it with the tree there. No other session
    /// writes to the table meanwhile.
    ///
    /// - Returns: the log position of the snapshot.
    func verify(_ building: inout ActiveMirror, _ catchingUp: CatchingUp) throws -> Int64 {
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" no longer exists.")
        }
        defer { source.endSnapshot() }
        try target.executeScript("begin")
        while building.seq < record.head { _ = try catchingUp.advance(&building, in: record) }
        try target.executeScript("commit")
        let comparison = try compare(building)
        guard comparison.isClean else {
            throw MirrorError.refused(
                """
                The new table of mirror "\(mirror.name)" differs from the tree at seq \(record.head) in \(comparison.differenceCount) rows; the old table stays in place.
                \(comparison.differences.joined(separator: "\n"))
                """)
        }
        return record.head
    }

    private func compare(_ building: ActiveMirror) throws -> TableComparison {
        let pattern = definition.pattern
        let comparison = TableComparison(target, building)
        var count = 0
        progress(.verifying(rows: 0))
        try RecordBatches.forEach(mirror.namespaceID, pattern, source, most: min(rowsAtOnce, 1_000)) { records in
            for record in records { try comparison.add(record.keys, record.value) }
            count += records.count
            progress(.verifying(rows: count))
        }
        try comparison.finish { some in
            try source.readSubtrees(mirror.namespaceID, some.map { pattern.path(of: $0) }).map(\.value)
        }
        return comparison
    }
}
