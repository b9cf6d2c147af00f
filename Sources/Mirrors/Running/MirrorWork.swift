import LogStore
import Postgres
import Runtime
import Tree

/// The mirrors of a group as the holder of their lock has them: steps them along the log, and sets aside the ones that
/// fail.
///
/// `load` reads the mirrors' cursors, and sorts the mirrors:
///
///     the mirror has no cursor, as its table was not built yet ──► building
///     the definition at the cursor has a mistake               ──► unusable
///     an operator has paused the mirror                        ──► paused
///     the log has lost the entry at the cursor                 ──► takenBack: the runner rebuilds the table, and loads again
///     otherwise                                                ──► active
///
/// `step` moves active mirrors along the log (`Stepper`). Mirrors that are close together move in one transaction. At the head,
/// `tryWaiting` tries the records again that a foreign key refused (`WaitingRows`). An error decides what happens next:
///
///     the table refuses a row             ──► careful: the next step finds the row, and leaves it out
///     a conflict that passes              ──► the next step tries again
///     somebody has locked the cursor      ──► heldUntil: the other mirrors move on without the mirror
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

    /// What waits for other tables and is tried now.
    private struct Trial {
        let index: Int
        let records: [String]
        /// Where a slice ends, and how many records it takes at most; nil for fresh records.
        let slice: (place: [UInt8]?, count: Int)?
    }

    private let core: MirrorCore
    private let group: MirrorGroup
    private let source: LogConnection
    private let target: PostgresConnection
    private let stepper: Stepper
    private var active: [ActiveMirror] = []
    /// In the catalog, but without a table.
    private var building: [String] = []
    /// Those whose table has come to entries that the log doesn't have any more, as the database has lost them.
    private(set) var takenBack: [(mirror: CatalogMirror, cursor: MirrorCursor, head: Int64)] = []
    /// Why some of these can't be made anew now.
    private var rebuildFailures: [String: Trouble] = [:]
    private var paused: [(name: String, seq: Int64)] = []
    /// Those whose definitions can't be used, with the reasons.
    private var unusable: [(mirror: CatalogMirror, seq: Int64, mistake: String)] = []
    private var mistakes: [String: String] = [:]
    private var troubles: [String: Trouble] = [:]
    /// Mirrors that somebody else holds, and when to look again.
    private var heldUntil: [String: Int64] = [:]
    private var waiting: WaitingRows
    private var behindSince: [String: Int64] = [:]
    private var lastReport: [MirrorReport] = []
    private var reportedAt: Int64 = 0
    /// Cursors or definitions are not what they were when they were read.
    private(set) var needsReload = true
    /// The log has to be looked at, as an announcement may have been lost.
    private var mayBeLate = true
    /// Whether all mirrors without history have reached the head.
    private var isTablesDone = false

    init(_ core: MirrorCore, _ group: MirrorGroup, _ source: LogConnection, _ target: PostgresConnection) {
        self.core = core
        self.group = group
        self.source = source
        self.target = target
        var stepper = Stepper(source: source, target: target, namespace: group.namespaceID)
        stepper.entriesAtOnce = core.settings.entriesAtOnce
        if let few = core.settings.rangeRecords { stepper.rangeRecords = few }
        self.stepper = stepper
        waiting = WaitingRows(core.settings)
    }

    /// Where the mirrors that run are; the least of them.
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

    /// Reads cursors and tables' definitions.
    mutating func load(_ mirrors: [CatalogMirror]) throws {
        let cursors = try MirrorCursor.of(mirrors.map(\.id), in: group.namespaceID, target)
        let before = active
        active = []
        paused = []
        unusable = []
        building = []
        takenBack = []
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
                log.relation(of: cursor.seq, batch: cursor.batch) == .takenBack
            {
                takenBack.append((mirror, cursor, log.head))
                continue
            }
            var one = ActiveMirror(mirror, cursor)
            // Another mirror's trouble is no reason to try again what was in vain.
            if let same = before.first(where: { $0.id == one.id && $0.generation == one.generation }) {
                one.isCareful = same.isCareful
                one.byPageThrough = same.byPageThrough
            }
            active.append(one)
        }
        // A table may refer to one of a shorter path, such as that of items to that of their orders.
        active.sort { ($0.definition.pattern.depth, $0.name) < ($1.definition.pattern.depth, $1.name) }
        tellOfMistakes()
        let names = Set(active.map(\.name))
        troubles = troubles.filter { names.contains($0.key) }
        heldUntil = heldUntil.filter { names.contains($0.key) }
        waiting.keep(names)
        rebuildFailures = rebuildFailures.filter { failure in takenBack.contains { $0.mirror.name == failure.key } }
        needsReload = false
        mayBeLate = true
    }

    private mutating func tellOfMistakes() {
        for (mirror, _, mistake) in unusable where mistakes[mirror.name] != mistake {
            core.logger.error(
                "mirror is broken, as its definition can't be used: apply another one",
                [("namespace", group.namespace), ("mirror", mirror.name), ("error", mistake)])
        }
        mistakes = Dictionary(unusable.map { ($0.mirror.name, $0.mistake) }, uniquingKeysWith: { $1 })
    }

    /// What `load` found has been dealt with, or can't be: it has to look again.
    mutating func loadAgain() { needsReload = true }

    /// Some time has passed: announcements may have been lost, tables been made.
    mutating func waited() {
        mayBeLate = true
        if !building.isEmpty || !takenBack.isEmpty { needsReload = true }
    }

    /// Takes a step. True when there is nothing more to do for now.
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
        // A step of those that ask the tree goes to the head. Those that keep what records were take long over so many entries, and
        // need not do it in one transaction.
        isTablesDone = try stepTogether(able.filter { active[$0].definition.keeps == nil }, head)
        guard !needsReload else { return false }
        let histories = try stepTogether(able.filter { active[$0].definition.keeps != nil }, head)
        return isTablesDone && histories
    }

    /// Tries records again for which another table was in the way, once the mirrors have come to the head. Mirrors of the group that are not
    /// there, such as one that was broken until now, don't come along: this is one transaction.
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
            // Those that a command of an operator has left are not known here.
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
                    mirror.name, count: slice.count, place: slice.place, left: left.count, began: began, now)
            } else {
                waiting.triedFresh(mirror.name, left: Set(left), now)
            }
        }
    }

    /// What of a mirror is to be tried now; nil where it is nothing.
    private mutating func trial(of index: Int, _ now: Int64) throws -> Trial? {
        let mirror = active[index]
        switch waiting.next(mirror.name, now) {
        case nil: return nil
        case .fresh(let records):
            // Some may have been written since.
            let found = try MirrorErrors.records(target, mirror.asGeneration, among: records, refusedOnly: true)
            let left = records.filter { found.contains(Array($0.utf8)) }
            guard !left.isEmpty else {
                waiting.triedFresh(mirror.name, left: [], now)
                return nil
            }
            return Trial(index: index, records: left, slice: nil)
        case .slice(let place, let limit):
            let found = try MirrorErrors.waiting(target, mirror.asGeneration, after: place, limit: limit)
            guard !found.isEmpty else {
                waiting.triedSlice(mirror.name, count: 0, place: nil, left: 0, began: now, now)
                return nil
            }
            return Trial(index: index, records: found.map(\.record), slice: (found.last?.place, found.count))
        }
    }

    /// Those far behind go by themselves, so that the others don't wait for them.
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
            // A rebuild that swaps, or an operator's command; the others go on without them.
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
            // The commit, by a constraint that is checked then: with care it is checked for each row.
            if cause.isAboutData, indices.contains(where: { !active[$0].isCareful }) {
                for index in indices { stepper.beCareful(with: &active[index]) }
                return
            }
            // Nobody knows whose fault it is: all of them pause.
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
        // What broke it may have been a change of the mirror.
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

    /// Whether a table that has entries which the log has lost was not rebuilt yet, for some reason.
    func hasRebuildFailed(_ name: String) -> Bool { rebuildFailures[name] != nil }

    /// Whether such a table is to be rebuilt now: after a failure there is a pause, which grows.
    func rebuildsNow(_ name: String) -> Bool {
        rebuildFailures[name].map { $0.retryAt <= Clock.monotonicMilliseconds } ?? true
    }

    /// Notes that a table was rebuilt.
    mutating func rebuilt(_ name: String) { rebuildFailures[name] = nil }

    /// Notes why a table could not be rebuilt; true where that was not known.
    mutating func rebuildFailed(_ name: String, _ message: String) -> Bool {
        let last = rebuildFailures[name]
        rebuildFailures[name] = trouble(message, after: last)
        return last?.message != message
    }

    // MARK: Reports

    /// Tells this process how the mirrors fare, and now and then the database.
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
                behindSince[name] = nil
            } else {
                let since = behindSince[name] ?? now
                behindSince[name] = since
                reports[index].lagMilliseconds = now - since
            }
        }
        reports += takenBack.map {
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
