public import LogStore
import Postgres
import Tree

/// The expected effect of rebuilding a mirror's table.
public struct RebuildSurvey: Sendable {
    /// The log position at which this was counted.
    public let seq: Int64
    /// The number of records that match the mirror's pattern, of the rows they make, and of conversion errors.
    public let records: Int
    public let rows: Int
    public let conversionErrors: Int
    /// The table's log position, or nil if there is no table.
    public let cursor: Int64?
    /// Tables left by interrupted builds, which the rebuild would remove.
    public let leftovers: [String]
}

/// The expected effect of applying a part of the log to a mirror again.
public struct RepeatSurvey: Sendable {
    /// The range of entries, from the first to the head.
    public let first: Int64
    public let head: Int64
    /// The number of these entries that change the mirror.
    public let touching: Int64
}

extension MirrorAdministration {
    /// Builds a mirror's table again from the tree, beside the present one, compares it with the tree, and swaps. The table's
    /// definition does not change.
    ///
    /// - Parameters:
    ///   - rowsAtOnce: the maximum number of rows between two calls of `progress`.
    ///   - progress: may block, which slows the build down.
    public func rebuild(
        _ mirror: CatalogMirror, rowsAtOnce: Int = MirrorBuilder.maxRowsAtOnce,
        progress: @escaping (MirrorBuilder.Progress) -> Void = { _ in }
    ) throws -> MirrorBuilder.Outcome {
        // The table's definition counts: the catalog has an older one if an earlier command ended between the two databases.
        let definition = try cursor(mirror)?.definition ?? mirror.definition
        if definition.keeps != nil { return try rebuildHistory(mirror, definition, progress) }
        return try build(mirror, definition, verifies: true, rowsAtOnce: rowsAtOnce, progress: progress)
    }

    /// Counts the effect of `rebuild` without changing anything. Memory holds one record.
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
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" no longer exists.")
        }
        defer { source.endSnapshot() }
        var records = 0
        var rows = 0
        var errorCount = 0
        try RecordStream.read(mirror.namespaceID, definition.pattern, above: [], source) { keys, value, version in
            var conversionErrors: [ConversionError] = []
            let stamp = Stamp(seq: version, committedAt: nil)
            if projector.row(value, keys: keys, stamp: stamp, conversionErrors: &conversionErrors) != nil { rows += 1 }
            records += 1
            errorCount += conversionErrors.count
            progress(records)
        }
        return RebuildSurvey(
            seq: record.head, records: records, rows: rows, conversionErrors: errorCount, cursor: cursor?.seq,
            leftovers: try AbandonedTables.find(of: mirror.id, target))
    }

    /// Returns the approximate number of rows in the mirror's table, as PostgreSQL estimates it, or nil if unknown.
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

    /// Applies the entries from `first` to the head to the live table again, in one transaction. Records that they touch get
    /// the content that the tree has afterwards; other rows do not change. The cursor ends at the head. Memory holds one page
    /// of entries.
    ///
    /// - Parameters:
    ///   - entriesAtOnce: the maximum number of entries between two calls of `progress`.
    ///   - progress: gets the seq. May block; the mirror pauses until the transaction ends.
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

    /// Moves one mirror in a transaction of its own, which locks its cursor, on a snapshot of the tree that is no older than
    /// the cursor. The mirror's runner does not move it meanwhile.
    func moveAlone<Result>(
        _ mirror: CatalogMirror,
        _ body: (inout [ActiveMirror], MirrorStepWriter, NamespaceRecord) throws -> (Result, MirrorStepWriter.Step)
    ) throws -> (result: Result, seq: Int64, mirror: ActiveMirror) {
        let target = try connect(mirror)
        defer { target.close() }
        let stepper = MirrorStepWriter(source: source, target: target, namespace: mirror.namespaceID)
        var isCareful = false
        while true {
            try target.executeScript("begin; set local lock_timeout = '30s'")
            guard let cursor = try MirrorCursor.of(mirror, target, locking: true) else {
                throw MirrorError.refused("Mirror \"\(mirror.name)\" has no table yet.")
            }
            try cursor.definition.checkUsable()
            guard let record = try source.beginSnapshot(mirror.namespaceID) else {
                throw MirrorError.refused("The namespace \"\(mirror.namespace)\" no longer exists.")
            }
            defer { source.endSnapshot() }
            var one = [ActiveMirror(mirror, cursor)]
            one[0].isCareful = isCareful
            do {
                let (result, step) = try body(&one, stepper, record)
                try target.pipeline(stepper.commitSteps(one, step.position, step.entryAt))
                return (result, step.seq, one[0])
            } catch MirrorError.table(_, let error) where error.isAboutData && !isCareful {
                // Repeat the step row by row.
                try target.executeScript("rollback")
                isCareful = true
            } catch let error as PostgresError where error.isAboutData && !isCareful {
                // A deferred constraint failed at the commit.
                isCareful = true
            }
        }
    }

    /// Counts the effect of `applyAgain` without changing anything.
    public func surveyAgain(
        _ mirror: CatalogMirror, from first: Int64, progress: (Int64) -> Void = { _ in }
    ) throws -> RepeatSurvey {
        try refuseHistory(mirror)
        let target = try connect(mirror)
        defer { target.close() }
        let cursor = try self.cursor(mirror, target)
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" no longer exists.")
        }
        defer { source.endSnapshot() }
        let first = try Self.first(first, record, cursor.seq)
        var position = first - 1
        var touching: Int64 = 0
        var log = LogFollower(mirror.namespaceID, at: LogPosition(seq: position), through: record.head)
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

    /// Returns the first entry to apply. Entries that the mirror has not seen yet are included in any case.
    private static func first(_ wanted: Int64, _ record: NamespaceRecord, _ cursor: Int64) throws -> Int64 {
        let first = min(max(1, wanted), cursor + 1)
        guard first >= record.retainedFrom else {
            throw MirrorError.refused(
                "Entry \(first) is no longer in the log, which begins at \(record.retainedFrom): rebuild the whole table, without --from."
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
    /// Returns the beginning of a mirror's history, or nil if it has none or its database can't be reached.
    public func beginning(of mirror: CatalogMirror) -> MirrorHistoryBeginning? {
        guard mirror.definition.keeps != nil, let target = try? connect(mirror) else { return nil }
        defer { target.close() }
        return try? MirrorCursor.of(mirror, target)?.begins
    }

    /// Rebuilds a history's table from its versions, and compares the versions with the tree. If the log contradicts the
    /// versions, or does not continue from them, they are corrected first, at the oldest position that the log allows.
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
                \(definition.tableName) was rebuilt, but the stored versions of its records differ from the tree at seq \(verified.seq):
                \(verified.result.joined(separator: "\n"))
                """)
        }
        return MirrorBuilder.Outcome(
            rows: outcome.rows, conversionErrors: outcome.conversionErrors, seq: verified.seq,
            verifiedSeq: verified.seq,
            lost: outcome.lost, begins: outcome.begins)
    }

    /// Counts the effect of rebuilding a history's table.
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
            seq: cursor.seq, records: versionCount, rows: rowCount + rows.drain().rows.count, conversionErrors: 0,
            cursor: cursor.seq, leftovers: try AbandonedTables.find(of: mirror.id, target))
    }

    /// Refuses mirrors with a history. Entries can't be applied to them again: each row records the effect of one entry.
    func refuseHistory(_ mirror: CatalogMirror) throws {
        guard mirror.definition.keeps != nil else { return }
        throw MirrorError.refused(
            "\(mirror.definition.tableName) stores the versions of its records: rebuild it from them with 'pathmirror replay mirror \(mirror.name)', without --from."
        )
    }
}
