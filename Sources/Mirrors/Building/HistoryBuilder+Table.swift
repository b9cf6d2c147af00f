import LogStore
import Postgres
import Tree

/// Building of the table from versions.
extension HistoryBuilder {
    /// Creates the table of all versions with its indexes, in the open transaction or in several of its own.
    ///
    /// - Returns: the mirror's log position at that time, or 0 if the mirror has no table yet.
    @discardableResult
    func fill(_ building: ActiveMirror) throws -> Int64 {
        let table = building.table
        var seq: Int64 = 0
        do {
            try inSnapshot {
                for sql in table.createSQL { try target.executeScript(sql) }
                seq = try MirrorCursor.of(mirror, target)?.seq ?? 0
                try copy(building) { rows in
                    try self.target.copyIn(table.copySQL) { writer in
                        for row in rows.rows { try RowCopier.copy(row, to: &writer) }
                    }
                }
            }
            progress(.indexing)
            try makeIndexes(table)
        } catch let error as PostgresError where error.isAboutData {
            // An index can't hold a row's value. With the indexes created first, that row is found and left out.
            try target.executeScript("drop table if exists \(table.qualifiedName)")
            try inSnapshot {
                for sql in table.createSQL + table.indexSQL { try target.executeScript(sql) }
                try userDefined?.make(on: table, target)
                seq = try MirrorCursor.of(mirror, target)?.seq ?? 0
                try fillCarefully(building)
            }
        }
        for sql in table.versionsSQL + table.commentSQL { try target.executeScript(sql) }
        try target.executeScript("analyze \(table.qualifiedName)")
        return seq
    }

    private func makeIndexes(_ table: MirrorTable) throws {
        guard target.isInTransaction else {
            for sql in table.indexSQL { try target.executeScript(sql) }
            try userDefined?.make(on: table, target)
            return
        }
        try inSnapshot {
            for sql in table.indexSQL { try target.executeScript(sql) }
            try userDefined?.make(on: table, target)
        }
    }

    private func fillCarefully(_ building: ActiveMirror) throws {
        let keeper = HistoryWriter(source)
        try copy(building) { work in
            var writer = TableWriter(self.target)
            try keeper.putCarefully(work.rows[...], work.versions, building, &writer)
            try writer.deferConstraints(building)
            try writer.flush()
        }
    }

    /// Passes the rows of all versions to `put`.
    private func copy(_ building: ActiveMirror, _ put: (HistoryRows.Work) throws -> Void) throws {
        var rows = HistoryRows(building.projector)
        var count = 0
        func drain() throws {
            let work = rows.drain()
            if !work.rows.isEmpty { try put(work) }
            for some in work.errors.chunked(HistoryWriter.maxVersions) {
                _ = try target.pipeline([building.storing(some)])
            }
            count += work.rows.count
            progress(.copying(rows: count))
        }
        try versions.read(target, .all) { slice in
            for change in slice { try rows.follow(change.version) }
            try drain()
        }
        rows.endLast()
        try drain()
    }

    /// Applies the versions up to `cursor` that the mirror has recorded since the table was filled, in the open transaction. If
    /// the table rejects a row's data, repeats this row by row under a savepoint.
    func takeVersions(_ building: inout ActiveMirror, upTo cursor: MirrorCursor) throws {
        guard cursor.seq > building.seq else { return }
        let before = building
        do {
            try target.executeScript("savepoint versions")
            try take(&building, cursor.seq)
        } catch MirrorError.table(_, let error) where error.isAboutData {
            try target.executeScript("rollback to savepoint versions")
            building = before
            building.isCareful = true
            try take(&building, cursor.seq)
            building.isCareful = false
        }
        building.position.seq = cursor.seq
        progress(.catchingUp(seq: cursor.seq, head: cursor.seq))
    }

    private func take(_ building: inout ActiveMirror, _ last: Int64) throws {
        var rows = HistoryRows(building.projector)
        var writer = TableWriter(target)
        let keeper = HistoryWriter(source)
        var record: [Key]?
        var mirror = building
        func write() throws {
            try keeper.put(&rows, &mirror, &writer)
            // The next slice is read on the same connection.
            try writer.flush()
        }
        try versions.read(target, .between(building.seq, last)) { slice in
            for change in slice {
                let keys = RecordKey.keys(change.version.key)
                if keys != record {
                    if record != nil { rows.end() }
                    rows.begin(keys, before: try StoredRecord.decode(change.before), isFirst: change.isFirst)
                    record = keys
                }
                rows.take(try RecordVersion(change.version))
            }
            try write()
        }
        if record != nil { rows.end() }
        try write()
        building = mirror
    }

    /// Calls `body` on one snapshot, in a transaction of its own or under a savepoint of the open transaction.
    func inSnapshot(_ body: () throws -> Void) throws {
        let isInside = target.isInTransaction
        try target.executeScript(isInside ? "savepoint part" : "begin isolation level repeatable read")
        do {
            try body()
        } catch {
            target.dropPipelines()
            if target.isOpen { try target.executeScript(isInside ? "rollback to savepoint part" : "rollback") }
            throw error
        }
        try target.executeScript(isInside ? "release savepoint part" : "commit")
    }
}
