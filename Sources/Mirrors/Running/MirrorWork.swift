import LogStore
import Postgres
import Runtime
import Tree

/// The mirrors of a group whose lock this runner holds. Moves the mirrors along the log, and sets aside those that fail.
///
/// `load` reads the mirrors' cursors, and sorts the mirrors:
///
///     the mirror has no cursor: its table was not built yet    ──► building
///     the definition at the cursor has a mistake               ──► unusable
///     an operator has paused the mirror                        ──► paused
///     the log has lost the entry at the cursor                 ──► takenBack: the runner rebuilds the table, and loads again
///     otherwise                                                ──► active
///
/// `step` moves active mirrors along the log (`MirrorStepWriter`). Mirrors that are close together move in one transaction. At the head,
/// `tryWaiting` retries the records that a foreign key rejected (`WaitingRows`). An error decides what happens next:
///
///     the table rejects a row             ──► careful: the next step finds the row, and leaves it out
///     a conflict that passes              ──► the next step tries again
///     another session locks the cursor    ──► heldUntil: the other mirrors move without this one
///     the cursor is not as it was read    ──► needsReload: load again
///     the connection is lost              ──► the runner connects again
///     any other error                     ──► troubles: the mirror is broken, and waits, longer each time
///
/// Each build of a table has a new generation, and the cursor says which generation the table is. A step compares the
/// generation and the position of each cursor that it locks with those in memory. So a step never writes to a table that a build
/// has replaced.
struct MirrorWork {
    private struct Trouble {
        var retryAt: Int64
        var backoff: Backoff
        var message: String
    }

    /// Records that wait for other tables, and are tried now.
    private struct Trial {
        let index: Int
        let records: [String]
        /// The end of a slice and its number of records; nil for fresh records.
        let slice: (position: [UInt8]?, count: Int)?
    }

    private let core: MirrorCore
    private let group: MirrorGroup
    private let source: LogConnection
    private let target: PostgresConnection
    private let stepper: MirrorStepWriter
    private var active: [ActiveMirror] = []
    /// Mirrors that are in the catalog but have no table yet.
    private var building: [String] = []
    /// Mirrors whose tables contain entries that the database has lost.
    private(set) var rolledBack: [(mirror: CatalogMirror, cursor: MirrorCursor, head: Int64)] = []
    /// The failed rebuilds of such mirrors.
    private var rebuildFailures: [String: Trouble] = [:]
    private var paused: [(name: String, seq: Int64)] = []
    /// Mirrors whose definitions can't be used, with the mistakes.
    private var unusable: [(mirror: CatalogMirror, seq: Int64, mistake: String)] = []
    private var mistakes: [String: String] = [:]
    private var troubles: [String: Trouble] = [:]
    /// Mirrors whose cursors another session has locked, with the monotonic time of the next attempt, in milliseconds.
    private var heldUntil: [String: Int64] = [:]
    private var waiting: WaitingRows
    private var laggingSince: [String: Int64] = [:]
    private var lastReport: [MirrorReport] = []
    private var reportedAt: Int64 = 0
    /// Whether cursors or definitions may have changed since they were read.
    private(set) var needsReload = true
    /// Whether the log must be read because an announcement may have been lost.
    private var mayBeLate = true
    /// Whether all mirrors without history have reached the head.
    private var isTablesDone = false

    init(_ core: MirrorCore, _ group: MirrorGroup, _ source: LogConnection, _ target: PostgresConnection) {
        self.core = core
        self.group = group
        self.source = source
        self.target = target
        var stepper = MirrorStepWriter(source: source, target: target, namespace: group.namespaceID)
        stepper.entriesAtOnce = core.settings.entriesAtOnce
        if let few = core.settings.rangeRecords { stepper.rangeRecords = few }
        self.stepper = stepper
        waiting = WaitingRows(core.settings)
    }

    /// The lowest position of the mirrors that run.
    var position: Int64 { runnable.map { active[$0].seq }.min() ?? .max }

    var millisecondsToRetry: Int64 {
        let now = Clock.monotonicMilliseconds
        let looks = runnable.filter { active[$0].definition.keeps == nil }.map { waiting.retryAt(active[$0].name) }
        return (troubles.values.map(\.retryAt) + heldUntil.values + looks).map { max(1, $0 - now) }.min() ?? .max
    }

    private var runnable: [Int] {
        let now = Clock.monotonicMilliseconds
        return active.indices.filter { index in
            let name = active[index].name
            return max(troubles[name]?.retryAt ?? 0, heldUntil[name] ?? 0) <= now
        }
    }

    /// Reads the cursors and the tables' definitions.
    mutating func load(_ mirrors: [CatalogMirror]) throws {
        let cursors = try MirrorCursor.of(mirrors.map(\.id), in: group.namespaceID, target)
        let before = active
        active = []
        paused = []
        unusable = []
        building = []
        rolledBack = []
        for mirror in mirrors {
            guard let cursor = cursors.first(where: { $0.id == mirror.id }) else {
                building.append(mirror.name)
                continue
            }
            if let mistake = cursor.definition.mistake {
                unusable.append((mirror, cursor.seq, mistake))
                continue
            }
            if mirror.isPaused {
                paused.append((mirror.name, cursor.seq))
                continue
            }
            if let log = try source.history(group.namespaceID, at: cursor.seq),
                log.relation(of: cursor.position) == .rolledBack
            {
                rolledBack.append((mirror, cursor, log.head))
                continue
            }
            var one = ActiveMirror(mirror, cursor)
            // Careful mode survives a reload, so that failed attempts are not repeated because of another mirror.
            if let same = before.first(where: { $0.id == one.id && $0.generation == one.generation }) {
                one.isCareful = same.isCareful
                one.byPageThrough = same.byPageThrough
            }
            active.append(one)
        }
        // A table may refer to a table with a shorter path, for example from items to their orders.
        active.sort { ($0.definition.pattern.depth, $0.name) < ($1.definition.pattern.depth, $1.name) }
        reportMistakes()
        let names = Set(active.map(\.name))
        troubles = troubles.filter { names.contains($0.key) }
        heldUntil = heldUntil.filter { names.contains($0.key) }
        waiting.keep(names)
        rebuildFailures = rebuildFailures.filter { failure in rolledBack.contains { $0.mirror.name == failure.key } }
        needsReload = false
        mayBeLate = true
    }

    private mutating func reportMistakes() {
        for (mirror, _, mistake) in unusable where mistakes[mirror.name] != mistake {
            core.logger.error(
                "mirror is broken because its definition can't be used: apply another definition",
                [("namespace", group.namespace), ("mirror", mirror.name), ("error", mistake)])
        }
        mistakes = Dictionary(unusable.map { ($0.mirror.name, $0.mistake) }, uniquingKeysWith: { $1 })
    }

    /// Requests another `load`, because the findings of the last one were handled or can't be handled now.
    mutating func loadAgain() { needsReload = true }

    /// Notes that time has passed: announcements may have been lost, and tables may have been built.
    mutating func waited() {
        mayBeLate = true
        if !building.isEmpty || !rolledBack.isEmpty { needsReload = true }
    }

    /// Takes a step. Returns true if there is nothing more to do for now.
    mutating func step(_ head: Int64) throws -> Bool {
        isTablesDone = false
        let able = runnable
        let low = able.map { active[$0].seq }.min() ?? .max
        let high = able.map { active[$0].seq }.max() ?? 0
        guard !able.isEmpty, head > low || mayBeLate else {
            isTablesDone = true
            return true
        }
        mayBeLate = false
        if max(high, head) - low <= Int64(core.settings.entriesAtOnce) {
            isTablesDone = try advance(able, through: .max) ?? false
            return isTablesDone
        }
        // A step that reads the tree goes to the head. Histories take long for so many entries, and need not process them in
        // one transaction.
        isTablesDone = try stepTogether(able.filter { active[$0].definition.keeps == nil }, head)
        guard !needsReload else { return false }
        let histories = try stepTogether(able.filter { active[$0].definition.keeps != nil }, head)
        return isTablesDone && histories
    }

    /// Retries records that another table prevented, once the mirrors have reached the head. All of this is one transaction, so
    /// mirrors of the group at other positions, such as one that was broken until now, are left out.
    mutating func tryWaiting() throws {
        guard isTablesDone, !needsReload else { return }
        let began = Clock.monotonicMilliseconds
        let tables = runnable.filter { active[$0].definition.keeps == nil }
        let head = tables.map { active[$0].seq }.max()
        let able = tables.filter { active[$0].seq == head }
        let trials = try able.compactMap { try trial(of: $0, began) }
        guard !trials.isEmpty else { return }
        var rereading: [String: [[Key]]] = [:]
        for trial in trials {
            rereading[active[trial.index].name] = active[trial.index].keys(of: trial.records)
            active[trial.index].isCareful = true
            // Errors that an operator's command has left are not known here.
            active[trial.index].mayHaveErrors = true
        }
        // After a failed step no record was tried: the pauses that `next` has set pass before the next attempt.
        guard try advance(able, through: .max, rereading: rereading) != nil else { return }
        let now = Clock.monotonicMilliseconds
        for trial in trials {
            let mirror = active[trial.index]
            let found = try MirrorErrors.records(target, mirror.asGeneration, among: trial.records, refusedOnly: true)
            let left = trial.records.filter { found.contains(Array($0.utf8)) }
            if let slice = trial.slice {
                waiting.triedSlice(
                    mirror.name, count: slice.count, position: slice.position, left: left.count, began: began, now)
            } else {
                waiting.triedFresh(mirror.name, left: Set(left), now)
            }
        }
    }

    /// Returns the records of a mirror to try now, or nil if there are none.
    private mutating func trial(of index: Int, _ now: Int64) throws -> Trial? {
        let mirror = active[index]
        switch waiting.next(mirror.name, now) {
        case nil: return nil
        case .fresh(let records):
            // Some of them may have been written since.
            let found = try MirrorErrors.records(target, mirror.asGeneration, among: records, refusedOnly: true)
            let left = records.filter { found.contains(Array($0.utf8)) }
            guard !left.isEmpty else {
                waiting.triedFresh(mirror.name, left: [], now)
                return nil
            }
            return Trial(index: index, records: left, slice: nil)
        case .slice(let position, let limit):
            let found = try MirrorErrors.waiting(target, mirror.asGeneration, after: position, limit: limit)
            guard !found.isEmpty else {
                waiting.triedSlice(mirror.name, count: 0, position: nil, left: 0, began: now, now)
                return nil
            }
            return Trial(index: index, records: found.map(\.record), slice: (found.last?.position, found.count))
        }
    }

    /// Moves mirrors that are far behind in a separate step, so that the others don't wait for them.
    private mutating func stepTogether(_ able: [Int], _ head: Int64) throws -> Bool {
        let low = able.map { active[$0].seq }.min() ?? 0
        let high = able.map { active[$0].seq }.max() ?? 0
        if able.isEmpty || high - low <= Int64(core.settings.entriesAtOnce) {
            return try able.isEmpty || advance(able, through: .max) ?? false
        }
        var isDone = true
        if head > high { isDone = try advance(able.filter { active[$0].seq == high }, through: .max) ?? false }
        guard !needsReload else { return false }
        return try advance(able.filter { active[$0].seq < high }, through: high) ?? false && isDone
    }

    /// Moves some of the mirrors. Returns whether they have reached the head; nil if nothing was committed.
    private mutating func advance(
        _ indices: [Int], through last: Int64, rereading: [String: [[Key]]] = [:]
    ) throws -> Bool? {
        var some = indices.map { active[$0] }
        do {
            let step = try stepper.advance(&some, through: last, rereading: rereading)
            for (index, mirror) in zip(indices, some) {
                active[index] = mirror
                if !mirror.waiting.isEmpty, rereading[mirror.name] == nil {
                    waiting.began(mirror.waiting, of: mirror.name, Clock.monotonicMilliseconds)
                }
                active[index].waiting = []
                heldUntil[mirror.name] = nil
                if let trouble = troubles.removeValue(forKey: mirror.name) {
                    core.logger.notice(
                        "mirror runs again", [("mirror", mirror.name), ("was", trouble.message)])
                }
            }
            return step.seq >= step.head
        } catch {
            let error = MirrorError(error)
            guard !error.endsConnection, target.isOpen, source.isOpen, !core.stopsNow else { throw error }
            try failed(error, indices)
            return nil
        }
    }

    private mutating func failed(_ error: MirrorError, _ indices: [Int]) throws {
        switch error {
        case .moved: needsReload = true
        case .held(let names):
            // A rebuild that swaps, or an operator's command, holds the cursors. The other mirrors continue.
            for name in names { heldUntil[name] = Clock.monotonicMilliseconds + Self.heldPause }
        case .table(let name, let cause):
            guard let index = indices.first(where: { active[$0].name == name }) else { throw error }
            if cause.isRetriable { return }
            if cause.isAboutData, !active[index].isCareful {
                stepper.beCareful(with: &active[index])
                return
            }
            setAside(name, "\(cause)")
        case .pruned:
            for index in indices where active[index].seq == indices.map({ active[$0].seq }).min() {
                setAside(active[index].name, "\(error)")
            }
        case .database(let cause):
            if cause.isRetriable { return }
            // A deferred constraint failed at the commit. In careful mode it is checked for each row.
            if cause.isAboutData, indices.contains(where: { !active[$0].isCareful }) {
                for index in indices { stepper.beCareful(with: &active[index]) }
                return
            }
            // The cause could be any of them, so all of them pause.
            for index in indices { setAside(active[index].name, "\(error)") }
        default: for index in indices { setAside(active[index].name, "\(error)") }
        }
    }

    private static let heldPause: Int64 = 100

    private mutating func setAside(_ name: String, _ message: String) {
        if troubles[name] == nil {
            core.logger.warning(
                "mirror is broken", [("namespace", group.namespace), ("mirror", name), ("error", message)])
        }
        troubles[name] = trouble(message, after: troubles[name])
        // A change of the mirror may have caused the failure.
        needsReload = true
    }

    private func trouble(_ message: String, after last: Trouble?) -> Trouble {
        var backoff =
            last?.backoff
            ?? Backoff(
                firstMilliseconds: core.settings.firstRetryMilliseconds,
                longestMilliseconds: core.settings.maxRetryMilliseconds)
        let pause = backoff.nextMilliseconds()
        return Trouble(retryAt: Clock.monotonicMilliseconds + pause, backoff: backoff, message: message)
    }

    // MARK: Rebuilding

    /// Whether a rebuild of a table with lost entries has failed.
    func hasRebuildFailed(_ name: String) -> Bool { rebuildFailures[name] != nil }

    /// Whether such a table must be rebuilt now. After a failure there is a pause, which grows.
    func rebuildsNow(_ name: String) -> Bool {
        rebuildFailures[name].map { $0.retryAt <= Clock.monotonicMilliseconds } ?? true
    }

    /// Notes that a table was rebuilt.
    mutating func rebuilt(_ name: String) { rebuildFailures[name] = nil }

    /// Notes why a table could not be rebuilt. Returns true if the message is new.
    mutating func rebuildFailed(_ name: String, _ message: String) -> Bool {
        let last = rebuildFailures[name]
        rebuildFailures[name] = trouble(message, after: last)
        return last?.message != message
    }

    // MARK: Reports

    /// Reports the states of the mirrors to this process, and at intervals to the database.
    mutating func report(head: Int64) throws {
        let now = Clock.monotonicMilliseconds
        var reports = active.map { mirror -> MirrorReport in
            let trouble = troubles[mirror.name]
            var report = MirrorReport(
                namespace: group.namespace, name: mirror.name, state: trouble == nil ? .running : .broken)
            report.seq = mirror.seq
            report.message = trouble?.message
            return report
        }
        for (name, seq) in paused {
            var report = MirrorReport(namespace: group.namespace, name: name, state: .paused)
            report.seq = seq
            reports.append(report)
        }
        for (mirror, seq, mistake) in unusable {
            var report = MirrorReport(namespace: group.namespace, name: mirror.name, state: .broken)
            report.seq = seq
            report.message = mistake
            reports.append(report)
        }
        for index in reports.indices {
            let name = reports[index].name
            reports[index].lagEntries = max(0, head - reports[index].seq)
            if reports[index].lagEntries == 0 {
                laggingSince[name] = nil
            } else {
                let since = laggingSince[name] ?? now
                laggingSince[name] = since
                reports[index].lagMilliseconds = now - since
            }
        }
        reports += rolledBack.map {
            var report = MirrorReport(namespace: group.namespace, name: $0.mirror.name, state: .building)
            report.message = rebuildFailures[report.name]?.message
            return report
        }
        reports += building.map { MirrorReport(namespace: group.namespace, name: $0, state: .building) }
        core.board.set(group.description, reports)
        let isNews = lastReport.map { "\($0.name) \($0.state)" } != reports.map { "\($0.name) \($0.state)" }
        guard isNews || now - reportedAt >= 5_000 || (group.target != nil && now - reportedAt >= 500) else { return }
        lastReport = reports
        reportedAt = now
        try store()
    }

    private func store() throws {
        let now = Clock.monotonicMilliseconds
        let runs = try active.map { mirror in
            let trouble = troubles[mirror.name]
            let asks = group.target != nil && mirror.mayHaveErrors
            return MirrorRun(
                namespace: mirror.namespace, mirror: mirror.id, trouble: trouble?.message, seq: mirror.seq,
                errors: asks ? try MirrorErrors.kept(target, mirror.asGeneration) : nil,
                unkeptErrors: asks ? try MirrorErrors.unkept(target, mirror.asGeneration) : nil,
                retryMilliseconds: trouble.map { max(0, $0.retryAt - now) })
        }
        let broken = unusable.map { mirror, seq, mistake in
            MirrorRun(
                namespace: mirror.namespaceID, mirror: mirror.id, trouble: mistake, seq: seq, errors: nil,
                unkeptErrors: nil, retryMilliseconds: nil)
        }
        try source.reportMirrors(runs + broken, gateway: core.settings.gateway)
    }
}
