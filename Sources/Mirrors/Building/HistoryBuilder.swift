import LogStore
import Postgres
import Tree

/// Builds the table of a mirror with a history from its records' versions, and replaces the present table. If there are no
/// versions yet, the history begins with the tree before the log's oldest entry, and then follows the log as any mirror does.
///
/// The mirror continues while its table is rebuilt, and pauses only for the swap. If the log contradicts the versions, or does
/// not continue from them, the mirror pauses during the whole build, and the versions are corrected first.
///
/// Belongs to one thread, which it blocks. An interrupted build changes nothing that other sessions see until the swap commits.
/// Afterwards any runner of the mirror can continue.
final class HistoryBuilder {
    let source: LogConnection
    let target: PostgresConnection
    let mirror: CatalogMirror
    let definition: MirrorDefinition
    let progress: (MirrorBuilder.Progress) -> Void
    var userDefined: UserDefinedIndexes?
    /// The budget for trees of the past, or nil to keep them in memory without a limit.
    var room: (any TreeMemoryBudget)?
    private let shadow: String
    private static let swapAttempts = 60
    /// The maximum number of attempts to begin a history. The log's first entries may be pruned during an attempt.
    private static let beginnings = 3

    /// - Parameters:
    ///   - source: a session on the gateway's database.
    ///   - target: a connection to the database of the table.
    init(
        source: LogConnection, target: PostgresConnection, mirror: CatalogMirror, definition: MirrorDefinition,
        progress: @escaping (MirrorBuilder.Progress) -> Void = { _ in }
    ) {
        self.source = source
        self.target = target
        self.mirror = mirror
        self.definition = definition
        self.progress = progress
        shadow = AbandonedTables.shadowName(mirror.id)
    }

    var versions: MirrorVersions { MirrorVersions(namespace: mirror.namespaceID, mirror: mirror.id) }

    /// Builds the table and swaps. Throws `refused` if another session is building the same mirror.
    ///
    /// - Parameter follows: whether to bring the mirror to the log's head afterwards.
    func run(follows: Bool) throws -> MirrorBuilder.Outcome {
        try definition.checkUsable()
        guard try BuildLock.holds(mirror.id, target, .untilReleased) else { throw BuildLock.refusal(mirror.name) }
        defer { BuildLock.release(mirror.id, target) }
        try source.checkIsThere(mirror)
        do {
            if try AbandonedTables.remove(of: mirror.id, target) { progress(.removedLeftover) }
            let seq = try buildAndFollow(follows)
            let table = MirrorTable(definition, name: definition.table, label: "").qualifiedName
            guard let cursor = try MirrorCursor.of(mirror, target) else { throw MirrorError.moved }
            try source.releaseLog(
                mirror.namespaceID, for: mirror.name, mirror.id, at: mirror.target == nil ? nil : cursor.seq)
            let rows = try target.execute("select count(*) from \(table)").int64(0, 0)
            let active = ActiveMirror(mirror, cursor).asGeneration
            // For a history these are rows that the table rejected.
            let conversionErrors = try MirrorErrors.kept(target, active) + MirrorErrors.unkept(target, active)
            return MirrorBuilder.Outcome(
                rows: Int(rows), conversionErrors: Int(conversionErrors), seq: max(seq, cursor.seq), verifiedSeq: nil,
                lost: userDefined?.lost ?? [], begins: cursor.begins)
        } catch {
            target.dropPipelines()
            if target.isOpen {
                if target.isInTransaction { try? target.executeScript("rollback") }
                _ = try? AbandonedTables.remove(of: mirror.id, target)
            }
            // If a cursor was created meanwhile, it now retains the log.
            if source.isOpen { try? source.releaseLog(mirror.namespaceID, for: mirror.name, mirror.id, at: nil) }
            throw MirrorError(error)
        }
    }

    private func buildAndFollow(_ follows: Bool) throws -> Int64 {
        for beginning in 1... {
            do {
                try build()
                try source.redefineMirror(mirror.id, definition: definition.json)
                return follows ? try follow() : 0
            } catch MirrorError.pruned where beginning < Self.beginnings {
                // The log was pruned in spite of the build.
                continue
            }
        }
        throw MirrorError.moved
    }

    private func build() throws {
        let old = try MirrorCursor.of(mirror, target)
        try MirrorPlan.checkTableName(of: definition, replacing: old?.definition, target)
        userDefined = try UserDefinedIndexes(of: old?.definition, shadow: shadow, target)
        let generation = (old?.generation ?? 0) + 1
        let table = MirrorTable(definition, name: shadow, label: "build \(mirror.name) \(generation)")
        _ = try target.pipeline(
            MirrorErrors.forgetSteps(
                MirrorGeneration(namespace: mirror.namespaceID, mirror: mirror.id, generation: generation), .from))
        var building = ActiveMirror(
            id: mirror.id, namespace: mirror.namespaceID, generation: generation, table: table,
            position: LogPosition(seq: 0),
            mayHaveErrors: true)
        building.namesToBe = IndexRename.own(of: table) + (userDefined?.namesToBe ?? [])
        guard let old, old.definition.keeps != nil else { return try begin(&building, after: old) }
        if try continues(old) {
            try rebuild(&building, old)
        } else {
            try source.holdLog(mirror.namespaceID, for: mirror.name)
            try putRight(&building, old)
        }
    }

    // MARK: Begin, rebuild, correct

    /// Begins a history: of a new mirror, or of one that kept no removed records.
    private func begin(_ building: inout ActiveMirror, after old: MirrorCursor?) throws {
        try source.holdLog(mirror.namespaceID, for: mirror.name)
        let ground = try beginVersions()
        building.position = ground.position
        try fill(building)
        let catchingUp = CatchingUp(source: source, target: target, mirror: mirror, progress: progress)
        // Readers of an existing table must not see older data than before.
        if old != nil { try catchingUp.comeNear(&building) }
        try swap(building, replacing: old) { building in
            if old != nil { try catchingUp.reachHead(&building) }
            return (building.position, [self.beginStep(ground)])
        }
    }

    /// Rebuilds the table from correct versions while the mirror adds more.
    private func rebuild(_ building: inout ActiveMirror, _ old: MirrorCursor) throws {
        building.position.seq = try fill(building)
        while true {
            let before = building.seq
            try inSnapshot { try self.takeVersions(&building, upTo: try self.cursor()) }
            if building.seq - before <= CatchingUp.entriesLeftToSwap { break }
        }
        try swap(building, replacing: old) { building in
            let cursor = try self.cursor()
            try self.takeVersions(&building, upTo: cursor)
            return (cursor.position, [])
        }
    }

    /// Corrects the versions and rebuilds the table, in one transaction.
    private func putRight(_ building: inout ActiveMirror, _ old: MirrorCursor) throws {
        let swap = TableSwap(target, mirror, from: building.table, replacing: old, keeping: userDefined)
        try patiently { try swap.begin() }
        let ground = try reconcileVersions()
        try fill(building)
        // A new `TableSwap`, with the user-defined indexes as the filling has changed them.
        let finishing = TableSwap(target, mirror, from: building.table, replacing: old, keeping: userDefined)
        progress(.swapping)
        for attempt in 1... {
            try target.executeScript("savepoint swap")
            do {
                let lost = try finishing.finish(
                    definition, generation: building.generation, at: ground.position,
                    [beginStep(ground)])
                userDefined?.note(lost: lost)
                return
            } catch let error as PostgresError where error.sqlState == "55P03" {
                // A long query reads the old table. Waiting for its lock would block new readers.
                try target.executeScript("rollback to savepoint swap")
                guard attempt < Self.swapAttempts else { throw error }
                _ = try target.execute("select pg_sleep(0.5)")
            }
        }
    }

    private func beginStep(_ ground: HistoryBase) -> PipelineStep {
        MirrorCursors.beginStep(
            mirror.namespaceID, mirror.id, MirrorHistoryBeginning(seq: ground.seq + 1, at: ground.at))
    }

    /// Returns the cursor of the mirror, which has a table.
    func cursor() throws -> MirrorCursor {
        guard let cursor = try MirrorCursor.of(mirror, target) else { throw MirrorError.moved }
        return cursor
    }

    // MARK: Swapping

    private func swap(
        _ building: ActiveMirror, replacing old: MirrorCursor?,
        _ last: (inout ActiveMirror) throws -> (position: LogPosition, steps: [PipelineStep])
    ) throws {
        let swap = TableSwap(target, mirror, from: building.table, replacing: old, keeping: userDefined)
        progress(.swapping)
        try patiently {
            var building = building
            try swap.begin()
            let (position, steps) = try last(&building)
            let lost = try swap.finish(
                definition, generation: building.generation, at: position, steps)
            userDefined?.note(lost: lost)
        }
    }

    /// Retries while a runner's long step or a reader holds a lock. Waiting for readers would block new ones.
    private func patiently(_ body: () throws -> Void) throws {
        for attempt in 1... {
            do {
                return try body()
            } catch let error as PostgresError where error.sqlState == "55P03" || error.isRetriable {
                if target.isInTransaction { try target.executeScript("rollback") }
                guard attempt < Self.swapAttempts else { throw error }
                _ = try target.execute("select pg_sleep(0.5)")
            }
        }
    }

    // MARK: Following

    /// Brings the mirror to the log's head, in turns with its runner. Returns the position reached.
    private func follow() throws -> Int64 {
        let stepper = MirrorStepWriter(source: source, target: target, namespace: mirror.namespaceID)
        var isCareful = false
        while true {
            var one = [ActiveMirror(mirror, try cursor())]
            one[0].isCareful = isCareful
            do {
                let step = try stepper.advance(&one)
                isCareful = false
                progress(.catchingUp(seq: step.seq, head: step.head))
                if step.seq >= step.head { return step.seq }
            } catch MirrorError.table(_, let error) where error.isAboutData && !isCareful {
                isCareful = true
            } catch MirrorError.moved {
                continue
            } catch MirrorError.held {
                _ = try target.execute("select pg_sleep(0.02)")
            }
        }
    }
}
