public import LogStore
import Postgres
import Tree

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
