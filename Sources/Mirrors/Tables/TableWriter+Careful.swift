import LogStore
import Postgres
import Tree

/// Writing and removing rows of a table that has refused something: what it refuses is found out, halving, and recorded.
///
/// Each statement runs in a savepoint, with all constraints immediate, so that what a deferred one refuses is found out there as well. What was
/// gathered has been sent before.
extension TableWriter {
    /// Runs a statement, and undoes it if the table refuses some of its rows.
    ///
    /// - Returns: how many rows it has touched, or why it can't.
    /// - Throws: `MirrorError.table` for what is no matter of single rows.
    func attempt(_ step: PipelineStep, _ mirror: ActiveMirror) throws -> Result<Int, PostgresError> {
        do throws(PostgresError) {
            let results = try connection.pipeline([
                .query("savepoint careful"), step, .query("set constraints all immediate"),
                .query("release savepoint careful"),
            ])
            return .success(results[1].affectedRows)
        } catch {
            guard error.isAboutData else {
                throw error.endsConnection ? MirrorError(error) : .table(mirror: mirror.name, error)
            }
            try connection.executeScript("rollback to savepoint careful; release savepoint careful")
            return .failure(error)
        }
    }

    /// Finds the rows that the table refuses (an index that can't hold a value, a constraint that somebody added); they are left out and recorded.
    func upsertCarefully(
        _ rows: ArraySlice<ProjectedRow>, _ misfits: inout [ConversionError], _ mirror: ActiveMirror
    ) throws {
        guard let first = rows.first,
            let refusal = try refusal(of: RowEncoder.upsert(mirror.table, rows), rows: rows.count, mirror)
        else { return }
        guard rows.count == 1 else {
            let middle = rows.startIndex + rows.count / 2
            try upsertCarefully(rows[..<middle], &misfits, mirror)
            return try upsertCarefully(rows[middle...], &misfits, mirror)
        }
        if !refusal.isRowsKeptOut {
            // Otherwise the row of before would stay as if it were so now. It does where another table refers to it.
            _ = try attempt(.prepared(mirror.table.deleteRows, RowEncoder.keys(mirror.table, [first.keys])), mirror)
        }
        misfits.append(mirror.error(of: first.keys, seq: first.stamp.seq, mirror.refusal(refusal)))
    }

    /// Removes rows, but for those that the table keeps as another one refers to them; these are recorded.
    func deleteCarefully(
        _ keys: ArraySlice<[Key]>, _ misfits: inout [ConversionError], _ mirror: ActiveMirror
    ) throws {
        guard let first = keys.first else { return }
        let step = PipelineStep.prepared(mirror.table.deleteRows, RowEncoder.keys(mirror.table, Array(keys)))
        guard case .failure(let refusal) = try attempt(step, mirror) else { return }
        guard keys.count == 1 else {
            let middle = keys.startIndex + keys.count / 2
            try deleteCarefully(keys[..<middle], &misfits, mirror)
            return try deleteCarefully(keys[middle...], &misfits, mirror)
        }
        misfits.append(mirror.error(of: first, seq: mirror.seq, mirror.refusal(refusal, toRemove: true)))
    }

    /// Writes rows, and says why not all of them were written: nil where all are there as they should be. After an error about data none of them
    /// is written, and of rows that a trigger keeps out the others are.
    func refusal(of parameters: PostgresParameters, rows: Int, _ mirror: ActiveMirror) throws -> PostgresError? {
        let table = mirror.table
        let written: Int
        switch try attempt(.prepared(table.upsert, parameters), mirror) {
        case .success(let count): written = count
        case .failure(let error): return error
        }
        guard written < rows else { return nil }
        if let rule = try table.replacingRule(connection) {
            // The server keeps the plan that does something else, even after the rule is dropped.
            try connection.forget(table.upsert)
            throw MirrorError.table(mirror: mirror.name, .replaced(by: rule, on: mirror.definition.tableName))
        }
        // A trigger may also keep rows from being written that are there as they should be.
        let same = try connection.executePrepared(table.same, parameters).int64(0, 0)
        return same < Int64(rows) ? .rowsKeptOut(sent: rows, written: written) : nil
    }
}
