import LogStore
import Postgres
import Runtime
import Tree

/// Moves mirrors of one target forward along the log. Rows and cursors change in one transaction.
///
/// If an entry changes only a part of a record, the record is read from the tree. The tree is at the head, not at that entry,
/// so the transaction then continues to the head, where both agree.
///
///     source, in one snapshot                      target, in one transaction
///                                                  lock the cursors
///     page of the log ──┬──► PendingChanges ──┬──► TableWriter ──► rows of tables
///     tree ─────────────┼─────────────────────┘
///                       └──► HistoryWriter ──────────────────────► versions and rows of histories
///                                                  move the cursors, commit
///
/// A step that does not need the tree takes up to `pagesAtOnce` pages, and ends earlier after half a second. With a history, or
/// with a mirror in careful mode, it takes one page. A step that reads the tree continues to the head. If another transaction
/// has locked a cursor, a step in a transaction of its own throws `MirrorError.held`. If a cursor's position or generation
/// differs from that of the mirror in memory, it throws `MirrorError.moved`. After an error that transaction is rolled back:
/// rows and cursors are unchanged.
struct MirrorStepWriter {
    let source: LogConnection
    let target: PostgresConnection
    let namespace: Int64
    /// The number of entries read at once.
    var entriesAtOnce = 2_500
    /// The maximum number of pages in a step that may end before the head. The target writes a page while the next one is read.
    var pagesAtOnce = 8
    /// The time after which a step takes no further page, because other sessions wait for the cursors.
    private static let nanosecondsAtMost: UInt64 = 500_000_000
    /// The size of the largest record that histories store, in bytes.
    var maxRecordBytes = StoredRecord.maxBytes
    /// The limit from `MirrorSettings.rangeRecords`, if that is set.
    var rangeRecords = RangeRecords.mostRecords

    /// The party that has begun the transaction on the target and will commit it.
    enum Transaction {
        /// The step, which also locks and moves the cursors.
        case own
        /// The caller, which also handles the cursors.
        case joined
    }

    struct Step {
        /// The mirrors' log position after the step. Its batch is nil if no entry was read.
        let position: LogPosition
        /// The head of the log.
        let head: Int64
        /// The commit time of the entry before the position, or nil if no entry was read.
        let entryAt: Int64?

        var seq: Int64 { position.seq }
    }

    /// Moves the mirrors forward to `last` or by up to `pagesAtOnce` pages of entries, whichever is less; if the tree is read,
    /// to the head. The mirrors may be at different positions. After an error they are unchanged.
    func advance(
        _ mirrors: inout [ActiveMirror], through last: Int64 = .max, _ transaction: Transaction = .own,
        rereading: [String: [[Key]]] = [:]
    ) throws -> Step {
        guard let record = try source.beginSnapshot(namespace) else {
            throw MirrorError.refused("The namespace no longer exists.")
        }
        defer { source.endSnapshot() }
        return try advance(&mirrors, in: record, through: last, transaction, rereading: rereading)
    }

    /// Moves the mirrors forward on the source's open snapshot. `record` is the namespace in that snapshot.
    ///
    /// - Parameters:
    ///   - again: applies the entries after this position again, also to mirrors that have passed them. Rows get the head's
    ///     seq. With `again` or `rereading`, the step continues to the head.
    ///   - progress: called with the seq after each page, whose rows may still be in flight.
    func advance(
        _ mirrors: inout [ActiveMirror], in record: NamespaceRecord, through last: Int64 = .max,
        _ transaction: Transaction, rereading: [String: [[Key]]] = [:], again: Int64? = nil,
        progress: (Int64) throws -> Void = { _ in }
    ) throws -> Step {
        var moved = mirrors
        if let again { for index in moved.indices { moved[index].position.seq = min(moved[index].seq, again) } }
        let start = moved.map(\.seq).min() ?? record.head
        let needsRereading = again != nil || rereading.values.contains { !$0.isEmpty }
        if record.head <= start, !needsRereading {
            return Step(position: LogPosition(seq: start), head: record.head, entryAt: nil)
        }
        if record.retainedFrom > start + 1 {
            throw MirrorError.pruned(cursor: start, retainedFrom: record.retainedFrom)
        }
        do {
            if case .own = transaction { try beginOnTarget(mirrors) }
            var writer = TableWriter(target)
            let time = rereading.isEmpty ? nil : try source.commitTimes(namespace, [record.head])[record.head]
            let stamp = Stamp(seq: record.head, committedAt: time)
            for index in moved.indices {
                for keys in rereading[moved[index].name] ?? [] { moved[index].pending.reread(keys, stamp) }
            }
            let (end, entryAt) = try readAndWrite(
                &moved, &writer, from: start, through: last, head: record.head, mustReachHead: needsRereading,
                floor: again == nil ? 0 : record.head, progress)
            let after = moved.indices.filter { moved[$0].seq < end.seq }
            for index in after { moved[index].position = end }
            switch transaction {
            case .own: try writer.flush(commitSteps(after.map { moved[$0] }, end, entryAt))
            case .joined: try writer.flush()
            }
            for index in moved.indices { moved[index].isCareful = false }
            mirrors = moved
            return Step(position: end, head: record.head, entryAt: entryAt)
        } catch {
            target.dropPipelines()
            if case .own = transaction, target.isOpen, target.isInTransaction { try? target.executeScript("rollback") }
            throw error
        }
    }

    /// Makes a mirror careful after its table has rejected a row in the last step. The next step writes rows one by one, and
    /// steps take single pages until they have passed that row.
    func beCareful(with mirror: inout ActiveMirror) {
        mirror.isCareful = true
        mirror.byPageThrough = mirror.seq + Int64(entriesAtOnce * pagesAtOnce)
    }

    private func readAndWrite(
        _ mirrors: inout [ActiveMirror], _ writer: inout TableWriter, from start: Int64, through last: Int64,
        head: Int64, mustReachHead: Bool, floor: Int64, _ progress: (Int64) throws -> Void
    ) throws -> (end: LogPosition, time: Int64?) {
        var position = LogPosition(seq: start)
        var time: Int64?
        var asksTree = mustReachHead
        let began = Clock.monotonicNanoseconds
        // Finding the earlier values of records takes long, so the cursors are not locked for several pages. In careful mode
        // nothing is sent ahead.
        let goesByPage = mirrors.contains {
            $0.definition.keeps != nil || $0.isCareful || $0.seq < $0.byPageThrough
        }
        var pagesLeft = goesByPage ? 1 : pagesAtOnce
        var log = LogFollower(namespace, at: position) { $0.pageEntries = entriesAtOnce }
        while position.seq < head {
            let bound = asksTree ? head : min(head, last)
            log.bound = bound
            guard case .entries(let page) = try log.next(on: source), let last = page.last else { break }
            let newest = last.entry
            for logged in page { try take(logged.entry, &mirrors, floor) }
            asksTree = asksTree || mirrors.contains { $0.pending.needsTree }
            try writer.write(&mirrors, from: source)
            try keep(page, &mirrors, &writer)
            position = last.position
            time = newest.committedAt
            try progress(position.seq)
            pagesLeft -= 1
            let isLate = Clock.monotonicNanoseconds - began > Self.nanosecondsAtMost
            if !asksTree, pagesLeft <= 0 || position.seq >= bound || isLate { break }
            if !goesByPage { try writer.sendAhead() }
        }
        if mirrors.contains(where: { !$0.pending.isEmpty }) { try writer.write(&mirrors, from: source) }
        return (position, time)
    }

    /// - Parameter floor: The lowest `_seq` to write. When entries are applied again, rows may already have a higher one, and incremental
    ///   readers must find the repaired rows.
    private func take(_ entry: Entry, _ mirrors: inout [ActiveMirror], _ floor: Int64) throws {
        for index in mirrors.indices where mirrors[index].seq < entry.seq && mirrors[index].definition.keeps == nil {
            mirrors[index].pending.take(entry, notBefore: floor)
            guard entry.isBulk, entry.changes.isEmpty else { continue }
            let stamp = Stamp(seq: max(entry.seq, floor), committedAt: entry.committedAt)
            var passes = PartPasses()
            repeat {
                try source.forEachPart(namespace, of: entry.seq) { (part) throws(LogStoreError) in
                    for change in passes.select(part) { mirrors[index].pending.take(change, stamp) }
                }
            } while passes.beginNextPass()
        }
    }

    /// Passes the page to the mirrors with histories. They never read the tree, which is at the head. Their queries about
    /// records are sent together.
    private func keep(_ page: [LoggedEntry], _ mirrors: inout [ActiveMirror], _ writer: inout TableWriter) throws {
        let kept = mirrors.indices.filter { mirrors[$0].definition.keeps != nil }
        var keepers: [(index: Int, keeper: HistoryWriter, answer: Int?)] = []
        var questions: [(step: PipelineStep, mirror: ActiveMirror)] = []
        for index in kept {
            var keeper = HistoryWriter(source, maxRecordBytes: maxRecordBytes, rangeRecords: rangeRecords)
            let question = keeper.begin(page, mirrors[index], besides: kept.count - 1)
            keepers.append((index, keeper, question.map { _ in questions.count }))
            if let question { questions.append((question, mirrors[index])) }
        }
        let answers = try writer.flush(asking: questions)
        for (index, keeper, answer) in keepers {
            var keeper = keeper
            do {
                try keeper.finish(&mirrors[index], &writer, answer.map { answers[$0] })
            } catch let error as PostgresError where !error.endsConnection {
                throw MirrorError.table(mirror: mirrors[index].name, error)
            }
        }
    }

    private func beginOnTarget(_ mirrors: [ActiveMirror]) throws {
        let results = try target.pipeline([
            .query("begin"), MirrorCursors.lockStep(namespace, mirrors.map(\.id)),
        ])
        let locked = try MirrorCursors.locked(results[1])
        guard locked.count == mirrors.count else { throw try reason(for: mirrors, lockedCount: locked.count) }
        for cursor in locked {
            guard let mirror = mirrors.first(where: { $0.id == cursor.mirror }), cursor.seq == mirror.seq,
                cursor.generation == mirror.generation
            else { throw MirrorError.moved }
        }
    }

    /// Returns the reason why not all cursors could be locked: some are held or no longer exist.
    private func reason(for mirrors: [ActiveMirror], lockedCount: Int) throws -> MirrorError {
        let held = try MirrorCursors.held(target, namespace, mirrors.map(\.id))
        guard held.count + lockedCount == mirrors.count else { return .moved }
        return .held(mirrors.filter { held.contains($0.id) }.map(\.name))
    }

    /// Returns the statements that end a step's transaction: they move the cursors and commit.
    func commitSteps(
        _ mirrors: [ActiveMirror], _ position: LogPosition, _ time: Int64?
    ) -> [PipelineStep] {
        [MirrorCursors.moveStep(namespace, mirrors.map(\.id), to: position, time), .query("commit")]
    }
}
