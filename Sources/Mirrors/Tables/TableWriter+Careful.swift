import LogStore
import Postgres
import Tree

/// Writes and removes rows of a table that has rejected some. The writer finds these rows by halving, and records them.
///
/// Each statement runs under a savepoint, with all constraints immediate, so that violations of deferred constraints are found
/// there as well. Collected statements have been sent before.
extension TableWriter {
    /// The step that checks deferred constraints at once.
    private static let check: [PipelineStep] = [.query("set constraints all immediate")]

    /// Runs a statement, and undoes it if the table rejects some of its rows.
    ///
    /// An earlier statement, of any table, may have violated a deferred constraint. The check then says nothing about this
    /// statement, which runs without it: COMMIT checks both.
    ///
    /// - Returns: the number of rows that it has touched, or the error.
    /// - Throws: `MirrorError.table` for errors that are not about single rows.
    func attempt(_ step: PipelineStep, _ mirror: ActiveMirror) throws -> Result<Int, PostgresError> {
        let result = try attempt([step] + Self.check, mirror)
        guard case .failure(let error) = result, error.step == 2,
            case .failure = try attempt(Self.check, mirror)
        else { return result }
        return try attempt([step], mirror)
    }

    /// Runs steps under a savepoint. Returns the row count of the first step.
    private func attempt(_ steps: [PipelineStep], _ mirror: ActiveMirror) throws -> Result<Int, PostgresError> {
        do throws(PostgresError) {
            let results = try connection.pipeline(
                [.query("savepoint careful")] + steps + [.query("release savepoint careful")])
            return .success(results[1].affectedRows)
        } catch {
            guard error.isAboutData else { throw Self.error(error, of: mirror) }
            try connection.executeScript("rollback to savepoint careful; release savepoint careful")
            return .failure(error)
        }
    }

    /// Defers constraints again that are declared `initially deferred`. Later statements, such as those of other mirrors, may
    /// rely on this.
    func deferConstraints(_ mirror: ActiveMirror) throws {
        try asking(mirror) { () throws(PostgresError) in
            // A name stands for all constraints of a schema with that name.
            let names = try connection.execute(
                """
                select string_agg(distinct format('%I.%I', nspname, conname), ', ')
                from pg_constraint as deferred join pg_namespace on pg_namespace.oid = connamespace
                where condeferred and has_schema_privilege(connamespace, 'usage') and not exists (
                    select from pg_constraint as other
                    where other.connamespace = deferred.connamespace and other.conname = deferred.conname and not other.condeferred)
                """)
            guard !names.isNull(0, 0) else { return }
            try connection.executeScript("set constraints \(try names.string(0, 0)) deferred")
        }
    }

    /// Writes rows, and finds those that the table rejects (an index can't hold a value, a constraint was added). They are left
    /// out and recorded.
    func upsertCarefully(
        _ rows: ArraySlice<ProjectedRow>, _ conversionErrors: inout [ConversionError], _ mirror: ActiveMirror
    ) throws {
        guard let first = rows.first,
            let refusal = try refusal(of: RowEncoder.upsert(mirror.table, rows), rows: rows.count, mirror)
        else { return }
        guard rows.count == 1 else {
            let middle = rows.startIndex + rows.count / 2
            try upsertCarefully(rows[..<middle], &conversionErrors, mirror)
            return try upsertCarefully(rows[middle...], &conversionErrors, mirror)
        }
        if !refusal.isRowsKeptOut {
            // Otherwise the previous row would stay as if it were current. It stays only if another table refers to it.
            _ = try attempt(.prepared(mirror.table.deleteRows, RowEncoder.keys(mirror.table, [first.keys])), mirror)
        }
        conversionErrors.append(mirror.error(of: first.keys, seq: first.stamp.seq, mirror.refusal(refusal)))
    }

    /// Removes rows, except those to which another table refers. These are recorded.
    func deleteCarefully(
        _ keys: ArraySlice<[Key]>, _ conversionErrors: inout [ConversionError], _ mirror: ActiveMirror
    ) throws {
        guard let first = keys.first else { return }
        let step = PipelineStep.prepared(mirror.table.deleteRows, RowEncoder.keys(mirror.table, Array(keys)))
        guard case .failure(let refusal) = try attempt(step, mirror) else { return }
        guard keys.count == 1 else {
            let middle = keys.startIndex + keys.count / 2
            try deleteCarefully(keys[..<middle], &conversionErrors, mirror)
            return try deleteCarefully(keys[middle...], &conversionErrors, mirror)
        }
        conversionErrors.append(mirror.error(of: first, seq: mirror.seq, mirror.refusal(refusal, toRemove: true)))
    }

    /// Empties ranges. If a foreign key prevents that, removes row by row those that are not written again. The others are
    /// overwritten.
    ///
    /// - Returns: the errors of the rows that stay.
    func emptyCarefully(
        _ step: PipelineStep, _ ranges: [[Key]], _ mirror: ActiveMirror, isPut: ([Key]) throws -> (([Key]) -> Bool)
    ) throws -> [ConversionError] {
        var conversionErrors: [ConversionError] = []
        guard case .failure = try attempt(step, mirror) else { return conversionErrors }
        for range in ranges {
            let stays = try isPut(range)
            let keys = try asking(mirror) { () throws(PostgresError) in
                try mirror.table.keys(below: range, connection)
            }
            for some in keys.filter({ !stays($0) }).chunked(Self.maxRows) {
                try deleteCarefully(some[...], &conversionErrors, mirror)
            }
        }
        return conversionErrors
    }

    /// Writes rows. Returns nil if the table then contains all of them, otherwise the error. After an error about data none of
    /// them is written. If a trigger rejects some rows, the others are written.
    func refusal(of parameters: PostgresParameters, rows: Int, _ mirror: ActiveMirror) throws -> PostgresError? {
        let table = mirror.table
        let step = PipelineStep.prepared(table.upsert, parameters)
        let written: Int
        switch try attempt(step, mirror) {
        case .success(let count): written = count
        case .failure(let error): return error
        }
        guard written < rows else { return nil }
        let rule = try asking(mirror) { () throws(PostgresError) in
            // The server keeps the plan of a rule that replaces the statement, even after the rule is dropped.
            try connection.forget(table.upsert)
            return try table.replacingRule(connection)
        }
        if let rule {
            throw MirrorError.table(mirror: mirror.name, .replaced(by: rule, on: mirror.definition.tableName))
        }
        // A trigger may also skip rows that the table already contains unchanged.
        let same = try asking(mirror) { () throws(PostgresError) in
            try connection.executePrepared(table.same, parameters).int64(0, 0)
        }
        guard same < Int64(rows) else { return nil }
        let refusal = PostgresError.rowsKeptOut(sent: rows, written: written)
        guard rows == 1 else { return refusal }
        // The plan may have been that of a rule that is dropped by now.
        switch try attempt(step, mirror) {
        case .success(let count): return count < rows ? refusal : nil
        case .failure(let error): return error
        }
    }

    /// Queries one mirror's table. An error concerns only that mirror.
    private func asking<Answer>(
        _ mirror: ActiveMirror, _ body: () throws(PostgresError) -> Answer
    ) throws(MirrorError) -> Answer {
        do throws(PostgresError) {
            return try body()
        } catch {
            throw Self.error(error, of: mirror)
        }
    }

    private static func error(_ error: PostgresError, of mirror: ActiveMirror) -> MirrorError {
        error.endsConnection ? MirrorError(error) : .table(mirror: mirror.name, error)
    }
}

extension PostgresError {
    /// Whether the server rejected a value, not the statement: data exceptions, constraints, program limits, errors raised by
    /// triggers.
    var isAboutData: Bool {
        guard case .server(let state) = kind else { return kind == .invalidParameter }
        return ["22", "23", "27", "54"].contains { state.hasPrefix($0) }
    }

    /// Whether a foreign key was violated: the row to which this one refers does not exist yet, or another row still refers to
    /// this one.
    var isForeignKey: Bool {
        // foreign_key_violation, and restrict_violation since PostgreSQL 18.
        sqlState == "23503" || sqlState == "23001"
    }
}
