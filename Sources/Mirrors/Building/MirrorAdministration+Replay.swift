public import LogStore
import Postgres
import Tree

/// What making a mirror's table anew would do.
public struct RebuildSurvey: Sendable {
    /// The entry as of which this was counted.
    public let seq: Int64
    /// Records that the mirror's pattern finds, the rows they make, and the values that don't fit.
    public let records: Int
    public let rows: Int
    public let misfits: Int
    /// Where the table's cursor is; nil when there is no table.
    public let cursor: Int64?
    /// Tables that interrupted builds have left, which would be removed.
    public let leftovers: [String]
}

/// What applying a part of the log to a mirror again would do.
public struct RepeatSurvey: Sendable {
    /// The entries, from the first to the head.
    public let first: Int64
    public let head: Int64
    /// Of those, the ones that change something of the mirror.
    public let touching: Int64
}

extension MirrorAdministration {
    /// Makes a mirror's table anew from the tree, beside the one that is there, compares it with the tree, and swaps.
    /// The table's definition stays as it is.
    ///
    /// - Parameters:
    ///   - rowsAtOnce: the most rows between two calls of `progress`.
    ///   - progress: may wait, which slows the build down.
    public func rebuild(
        _ mirror: CatalogMirror, rowsAtOnce: Int = MirrorBuilder.maxRowsAtOnce,
        progress: @escaping (MirrorBuilder.Progress) -> Void = { _ in }
    ) throws -> MirrorBuilder.Outcome {
        // What the table obeys: the catalog is behind where an earlier command ended between the two databases.
        let definition = try cursor(mirror)?.definition ?? mirror.definition
        if definition.keeps != nil { return try rebuildHistory(mirror, definition, progress) }
        return try build(mirror, definition, verifies: true, rowsAtOnce: rowsAtOnce, progress: progress)
    }

    /// Counts what `rebuild` would do, and does nothing. Memory holds one record.
    public func surveyRebuild(
        _ mirror: CatalogMirror, progress: (Int) -> Void = { _ in }
    ) throws -> RebuildSurvey {
        let target = try connect(mirror)
        defer { target.close() }
        let cursor = try MirrorCursor.of(mirror, target)
        let definition = cursor?.definition ?? mirror.definition
        if definition.keeps != nil, let cursor { return try surveyHistory(mirror, cursor, target, progress) }
        try definition.checkUsable()
        let projector = Projector(definition)
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" is gone.")
        }
        defer { source.endSnapshot() }
        var records = 0
        var rows = 0
        var misfitCount = 0
        try RecordStream.read(mirror.namespaceID, definition.pattern, above: [], source) { keys, value, version in
            var misfits: [ConversionError] = []
            let stamp = Stamp(seq: version, committedAt: nil)
            if projector.row(value, keys: keys, stamp: stamp, misfits: &misfits) != nil { rows += 1 }
            records += 1
            misfitCount += misfits.count
            progress(records)
        }
        return RebuildSurvey(
            seq: record.head, records: records, rows: rows, misfits: misfitCount, cursor: cursor?.seq,
            leftovers: try Leftovers.find(of: mirror.id, target))
    }

    /// About how many rows the mirror's table has, as PostgreSQL guesses; nil when it doesn't know.
    public func estimatedRows(_ mirror: CatalogMirror) throws -> Int64? {
        let target = try connect(mirror)
        defer { target.close() }
        guard let cursor = try MirrorCursor.of(mirror, target) else { return nil }
        let table = MirrorTable(cursor.definition, name: cursor.definition.table, label: "")
        let rows = try target.execute(
            "select reltuples::bigint from pg_class where oid = to_regclass($1) and reltuples > 0",
            [.text(table.qualifiedName)])
        return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
    }

    // MARK: A part of the log

    /// Applies the entries from `first` on to the live table again, up to the head, in one transaction: whatever they
    /// touch is as the tree says afterwards; the other rows stay as they are. The cursor ends at the head. Memory holds a
    /// page of entries.
    ///
    /// - Parameters:
    ///   - entriesAtOnce: the most entries between two calls of `progress`.
    ///   - progress: is told of the seq. May wait; the mirror stands still until the transaction ends.
    public func applyAgain(
        _ mirror: CatalogMirror, from first: Int64, entriesAtOnce: Int = 2_500, progress: (Int64) -> Void = { _ in }
    ) throws -> (first: Int64, seq: Int64) {
        try refuseHistory(mirror)
        let step = try moveAlone(mirror) { one, stepper, record in
            var stepper = stepper
            stepper.entriesAtOnce = entriesAtOnce
            let start = try Self.first(first, record, one[0].seq)
            return (start, try stepper.advance(&one, in: record, .joined, again: start - 1, progress: progress))
        }
        return (step.result, step.seq)
    }

    /// Moves one mirror in a transaction of its own, which holds its cursor, on a snapshot of the tree that is no older than
    /// the cursor. The mirror's runner leaves it alone meanwhile.
    func moveAlone<Result>(
        _ mirror: CatalogMirror,
        _ body: (inout [ActiveMirror], Stepper, NamespaceRecord) throws -> (Result, Stepper.Step)
    ) throws -> (result: Result, seq: Int64, mirror: ActiveMirror) {
        let target = try connect(mirror)
        defer { target.close() }
        let stepper = Stepper(source: source, target: target, namespace: mirror.namespaceID)
        var isCareful = false
        while true {
            try target.executeScript("begin; set local lock_timeout = '30s'")
            guard let cursor = try MirrorCursor.of(mirror, target, locking: true) else {
                throw MirrorError.refused("Mirror \"\(mirror.name)\" has no table yet.")
            }
            try cursor.definition.checkUsable()
            guard let record = try source.beginSnapshot(mirror.namespaceID) else {
                throw MirrorError.refused("The namespace \"\(mirror.namespace)\" is gone.")
            }
            defer { source.endSnapshot() }
            var one = [ActiveMirror(mirror, cursor)]
            one[0].isCareful = isCareful
            do {
                let (result, step) = try body(&one, stepper, record)
                try target.pipeline(stepper.commitSteps(one, step.seq, step.entryAt, step.batch))
                return (result, step.seq, one[0])
            } catch MirrorError.table(_, let error) where error.isAboutData && !isCareful {
                // Once more, row by row.
                try target.executeScript("rollback")
                isCareful = true
            } catch let error as PostgresError where error.isAboutData && !isCareful {
                // The commit, by a constraint that is checked then.
                isCareful = true
            }
        }
    }

    /// Counts what `applyAgain` would do, and does nothing.
    public func surveyAgain(
        _ mirror: CatalogMirror, from first: Int64, progress: (Int64) -> Void = { _ in }
    ) throws -> RepeatSurvey {
        try refuseHistory(mirror)
        let target = try connect(mirror)
        defer { target.close() }
        let cursor = try self.cursor(mirror, target)
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" is gone.")
        }
        defer { source.endSnapshot() }
        let first = try Self.first(first, record, cursor.seq)
        var position = first - 1
        var touching: Int64 = 0
        var log = LogFollower(mirror.namespaceID, at: LogCursor(seq: position), through: record.head)
        while position < record.head {
            guard case .entries(let page) = try log.next(on: source), let newest = page.last?.entry.seq else { break }
            for logged in page where try touches(logged.entry, mirror, cursor.definition) { touching += 1 }
            position = newest
            progress(position)
        }
        return RepeatSurvey(first: first, head: record.head, touching: touching)
    }

    private func touches(_ entry: Entry, _ mirror: CatalogMirror, _ definition: MirrorDefinition) throws -> Bool {
        var pending = PendingChanges(definition.pattern)
        pending.take(entry)
        guard pending.isEmpty, entry.isBulk, entry.changes.isEmpty else { return !pending.isEmpty }
        let stamp = Stamp(seq: entry.seq, committedAt: entry.committedAt)
        try source.forEachPart(mirror.namespaceID, of: entry.seq) { (changes) throws(LogStoreError) in
            for change in changes { pending.take(change, stamp) }
        }
        return !pending.isEmpty
    }

    /// Where to begin: what the mirror has not seen yet is applied in any case.
    private static func first(_ wanted: Int64, _ record: NamespaceRecord, _ cursor: Int64) throws -> Int64 {
        let first = min(max(1, wanted), cursor + 1)
        guard first >= record.retainedFrom else {
            throw MirrorError.refused(
                "Entry \(first) is not in the log any more, which begins at \(record.retainedFrom): make the whole table anew, without a beginning."
            )
        }
        return first
    }

    private func cursor(_ mirror: CatalogMirror) throws -> MirrorCursor? {
        let target = try connect(mirror)
        defer { target.close() }
        return try MirrorCursor.of(mirror, target)
    }

    private func cursor(_ mirror: CatalogMirror, _ target: PostgresConnection) throws -> MirrorCursor {
        guard let cursor = try MirrorCursor.of(mirror, target) else {
            throw MirrorError.refused("Mirror \"\(mirror.name)\" has no table yet.")
        }
        return cursor
    }
}

extension MirrorAdministration {
    /// Where a mirror's history begins; nil for one that has none, or whose database can't be asked.
    public func beginning(of mirror: CatalogMirror) -> MirrorHistoryBeginning? {
        guard mirror.definition.keeps != nil, let target = try? connect(mirror) else { return nil }
        defer { target.close() }
        return try? MirrorCursor.of(mirror, target)?.begins
    }

    /// Makes a history's table anew of what is known of its records, and compares that with the tree. Where the log contradicts
    /// it, or does not go on from it any more, it is put right before, as of the oldest entry that the log has.
    func rebuildHistory(
        _ mirror: CatalogMirror, _ definition: MirrorDefinition,
        _ progress: @escaping (MirrorBuilder.Progress) -> Void
    ) throws -> MirrorBuilder.Outcome {
        let outcome = try build(mirror, definition, progress: progress)
        let verified = try moveAlone(mirror) { one, stepper, record in
            var step = try stepper.advance(&one, in: record, .joined)
            while step.seq < record.head { step = try stepper.advance(&one, in: record, .joined) }
            progress(.verifying(rows: 0))
            let comparison = HistoryComparison(stepper.target, one[0])
            let pattern = definition.pattern
            try RecordStream.read(mirror.namespaceID, pattern, above: [], self.source) { keys, value, _ in
                try comparison.add(keys, value)
            }
            try comparison.finish()
            return (comparison.differences, step)
        }
        guard verified.result.isEmpty else {
            throw MirrorError.refused(
                """
                \(definition.tableName) was made anew, but what is kept of its records is not what the tree at seq \(verified.seq) says.
                \(verified.result.joined(separator: "\n"))
                """)
        }
        return MirrorBuilder.Outcome(
            rows: outcome.rows, misfits: outcome.misfits, seq: verified.seq, verifiedSeq: verified.seq,
            lost: outcome.lost, begins: outcome.begins)
    }

    /// Counts what making a history's table anew would do.
    func surveyHistory(
        _ mirror: CatalogMirror, _ cursor: MirrorCursor, _ target: PostgresConnection, _ progress: (Int) -> Void
    ) throws -> RebuildSurvey {
        try target.executeScript("begin isolation level repeatable read read only")
        defer { try? target.executeScript("rollback") }
        var versionCount = 0
        var rowCount = 0
        var rows = HistoryRows(Projector(cursor.definition))
        try MirrorVersions(namespace: mirror.namespaceID, mirror: mirror.id).read(target, .all) { slice in
            for change in slice { try rows.follow(change.version) }
            versionCount += slice.count
            rowCount += rows.drain().rows.count
            progress(versionCount)
        }
        rows.endLast()
        return RebuildSurvey(
            seq: cursor.seq, records: versionCount, rows: rowCount + rows.drain().rows.count, misfits: 0,
            cursor: cursor.seq, leftovers: try Leftovers.find(of: mirror.id, target))
    }

    /// Entries can't be applied to a history once more: each of its rows is what one entry did.
    func refuseHistory(_ mirror: CatalogMirror) throws {
        guard mirror.definition.keeps != nil else { return }
        throw MirrorError.refused(
            "\(mirror.definition.tableName) keeps what its records were: 'pathmirror replay mirror \(mirror.name)' without --from makes it anew of that."
        )
    }
}
