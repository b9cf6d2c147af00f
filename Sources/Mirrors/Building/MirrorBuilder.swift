public import LogStore
public import Postgres
import Tree

/// Makes a mirror's table beside the one that is there, brings it up to the log's head, and puts it in the other's place
/// in one transaction. Readers see the old table until then, and the new one, whole, from then on.
///
/// Belongs to one thread, which it blocks. What an earlier run has left half-made is thrown away.
public final class MirrorBuilder {
    /// How far a build has come.
    public enum Progress: Sendable {
        case copying(rows: Int)
        case indexing
        case catchingUp(seq: Int64, head: Int64)
        case swapping
    }

    /// What a build has made.
    public struct Outcome: Sendable {
        public let rows: Int
        public let misfits: Int
        /// The entry up to which the table has come.
        public let seq: Int64
    }

    let source: LogSession
    let target: PostgresConnection
    /// For what has to be asked while the other two stream.
    private let lookup: LogSession
    private let misfitWriter: PostgresConnection
    private let mirror: CatalogMirror
    private let definition: MirrorDefinition
    private let shadow: String
    private let progress: (Progress) -> Void
    private var times: [Int64: Int64] = [:]
    private var rowCount = 0
    private var misfitCount = 0

    private static let recordsAtOnce = 5_000
    /// How near the head the new table has to be before the old one is kept from moving.
    private static let entriesLeftToSwap: Int64 = 1_000
    private static let swapAttempts = 60

    /// - Parameters:
    ///   - source: a session on the gateway's database, and `lookup` another.
    ///   - target: a connection to the database of the table, and `misfitWriter` another.
    ///   - definition: the new one; the mirror's own to rebuild it as it is.
    public init(
        source: LogSession, lookup: LogSession, target: PostgresConnection, misfitWriter: PostgresConnection,
        mirror: CatalogMirror, definition: MirrorDefinition, progress: @escaping (Progress) -> Void = { _ in }
    ) {
        self.source = source
        self.lookup = lookup
        self.target = target
        self.misfitWriter = misfitWriter
        self.mirror = mirror
        self.definition = definition
        self.progress = progress
        shadow = "_build_" + mirror.id.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// Builds and swaps. Throws `refused` while somebody else builds the same mirror.
    public func run() throws -> Outcome {
        guard
            try target.execute(
                "select pg_try_advisory_lock(hashtextextended($1, 0))", [.text("pathmirror build \(shadow)")]
            ).bool(0, 0)
        else { throw MirrorError.refused("Mirror \"\(mirror.name)\" is being built by somebody else.") }
        defer {
            if target.isOpen {
                _ = try? target.execute(
                    "select pg_advisory_unlock(hashtextextended($1, 0))", [.text("pathmirror build \(shadow)")])
            }
        }
        let old = try Catalog.cursors(target, mirror.namespaceID, [mirror.id]).first
        let generation = try nextGeneration(old)
        let table = MirrorTable(definition, name: shadow, label: "build \(mirror.name) \(generation)")
        do {
            var building = try fill(table, generation)
            let swap = TableSwap(target, mirror, from: table, replacing: old)
            let seq = try catchUpAndSwap(&building, swap)
            try Catalog.update(source.connection, mirror.id, definition)
            try Catalog.announce(source.connection)
            return Outcome(rows: rowCount, misfits: misfitCount, seq: seq)
        } catch {
            if target.isOpen {
                if target.isInTransaction { try? target.executeScript("rollback") }
                _ = try? target.executeScript("drop table if exists \(table.qualifiedName)")
            }
            throw MirrorError(error)
        }
    }

    /// Greater than any that was used, so that errors of builds that were given up are not taken for this one's.
    private func nextGeneration(_ old: MirrorCursor?) throws -> Int64 {
        let next = (old?.generation ?? 0) + 1
        _ = try target.execute(
            "delete from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation >= $3",
            [.int8(mirror.namespaceID), .uuid(mirror.id), .int8(next)])
        return next
    }

    // MARK: Filling

    private func fill(_ table: MirrorTable, _ generation: Int64) throws -> ActiveMirror {
        try target.executeScript("drop table if exists \(table.qualifiedName)")
        for sql in table.createSQL { try target.executeScript(sql) }
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" is gone.")
        }
        defer { source.endSnapshot() }
        var building = ActiveMirror(
            id: mirror.id, namespace: mirror.namespaceID, generation: generation, table: table, seq: record.head,
            mayHaveErrors: false)
        try target.copyIn(table.copySQL) { writer in
            var records: [(keys: [Key], value: Node, version: Int64)] = []
            try RecordStream.read(mirror.namespaceID, definition.pattern, above: [], source) { keys, value, version in
                records.append((keys, value, version))
                if records.count >= Self.recordsAtOnce { try self.write(&records, building, &writer) }
            }
            try write(&records, building, &writer)
        }
        building.mayHaveErrors = misfitCount > 0
        progress(.indexing)
        for sql in table.indexSQL + table.commentSQL { try target.executeScript(sql) }
        try target.executeScript("analyze \(table.qualifiedName)")
        return building
    }

    private func write(
        _ records: inout [(keys: [Key], value: Node, version: Int64)], _ building: ActiveMirror,
        _ writer: inout CopyWriter
    ) throws {
        let unknown = Set(records.map(\.version)).filter { times[$0] == nil }
        if !unknown.isEmpty {
            if times.count > 1_000_000 { times.removeAll() }
            times.merge(try lookup.commitTimes(mirror.namespaceID, Array(unknown))) { $1 }
        }
        var misfits: [Misfit] = []
        for record in records {
            let stamp = Stamp(seq: record.version, committedAt: times[record.version])
            let row = building.projector.row(record.value, keys: record.keys, stamp: stamp, misfits: &misfits)
            if let row {
                try RowCopier.copy(row, building.table, to: &writer)
                rowCount += 1
            }
        }
        records.removeAll(keepingCapacity: true)
        for some in misfits.chunked(5_000) {
            _ = try misfitWriter.executePrepared(
                CursorSQL.insertErrors, CursorSQL.errorParameters(building, some))
        }
        misfitCount += misfits.count
        progress(.copying(rows: rowCount))
    }

    // MARK: Catching up

    private func catchUpAndSwap(_ building: inout ActiveMirror, _ swap: TableSwap) throws -> Int64 {
        let stepper = Stepper(source: source, target: target, namespace: mirror.namespaceID)
        for attempt in 1... {
            try catchUp(&building, stepper)
            progress(.swapping)
            let before = building
            do {
                try swap.begin()
                // The old table can't move any more; the new one passes it.
                var step = try advance(&building, stepper)
                while step.seq < step.head { step = try advance(&building, stepper) }
                try swap.finish(definition, generation: building.generation, seq: building.seq)
                return building.seq
            } catch let error as PostgresError where error.sqlState == "55P03" || error.isRetriable {
                // Somebody reads the old table for long. Waiting for them would keep new readers out.
                building = before
                try target.executeScript("rollback")
                guard attempt < Self.swapAttempts else { throw error }
                _ = try target.execute("select pg_sleep(0.5)")
            }
        }
        return building.seq
    }

    private func catchUp(_ building: inout ActiveMirror, _ stepper: Stepper) throws {
        while true {
            try target.executeScript("begin")
            let before = building
            do {
                let step = try advance(&building, stepper)
                try target.executeScript("commit")
                progress(.catchingUp(seq: step.seq, head: step.head))
                if step.head - step.seq <= Self.entriesLeftToSwap { return }
            } catch {
                building = before
                throw error
            }
        }
    }

    private func advance(_ building: inout ActiveMirror, _ stepper: Stepper) throws -> Stepper.Step {
        var one = [building]
        // Whatever the table may refuse, it is found out here, row by row, at a savepoint's price.
        do {
            try target.executeScript("savepoint step")
            let step = try stepper.advance(&one, .joined)
            building = one[0]
            return step
        } catch MirrorError.table(_, let error) where error.isAboutData {
            try target.executeScript("rollback to savepoint step")
            one = [building]
            one[0].isCareful = true
            let step = try stepper.advance(&one, .joined)
            building = one[0]
            return step
        }
    }
}
