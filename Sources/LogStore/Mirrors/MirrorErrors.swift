public import Postgres

/// A conversion error: a value that a mirror's table can't store.
public struct MirrorErrorRecord: Sendable {
    /// The record's path.
    public let record: String
    /// Empty if the error concerns the whole row.
    public let column: String
    /// The value's path.
    public let path: String
    public let seq: Int64
    /// The value as JSON, truncated if long. Nil if there is no value.
    public let value: String?
    public let reason: String

    /// Creates an error to store.
    public init(record: String, column: String, path: String, seq: Int64, value: String?, reason: String) {
        self.record = record
        self.column = column
        self.path = path
        self.seq = seq
        self.value = value
        self.reason = reason
    }
}

/// One generation of a mirror's table. The errors of each generation are stored separately.
public struct MirrorGeneration: Sendable {
    public let namespace: Int64
    public let mirror: [UInt8]
    public let generation: Int64

    /// Creates a reference to a generation of a mirror's table.
    public init(namespace: Int64, mirror: [UInt8], generation: Int64) {
        self.namespace = namespace
        self.mirror = mirror
        self.generation = generation
    }

    /// The three properties as the first parameters of statements.
    public var parameters: PostgresParameters { [.int8(namespace), .uuid(mirror), .int8(generation)] }
}

/// The conversion errors of mirrors: rows of `pathmirror.mirror_error` in the database of the tables. The mirror's
/// definition limits the number of stored errors, and `mostWaiting` limits those of records that are retried. Further
/// errors are only counted, so clients that write unsuitable values can't fill the disk with errors.
public enum MirrorErrors {
    /// Selects generations.
    public enum Generations: String, Sendable {
        case all = ">= 0"
        case from = ">= $3"
        case allBut = "<> $3"
    }

    /// The prefix of a temporary reason: a foreign key rejects the row or its removal, and the gateway retries the
    /// record. These errors have a separate limit.
    public static let forNow = "for now, "

    /// The maximum number of records of a table that wait for other tables.
    public static let mostWaiting = 100_000

    /// Errors that are already stored are updated regardless of the limit.
    private static let insert = PostgresStatement(
        "insert_mirror_errors",
        """
        with given as (
            select md5(case when $11 then record || ' ' || seq else record end)::uuid as record_hash, given.*
            from unnest($4, $5, $6, $7, $8, $9) with ordinality
                as given (record, column_name, path, seq, value, reason, n)
        ), fresh as (
            select n, row_number() over (order by n) as place from given
            where not exists (
                select from pathmirror.mirror_error as known
                where known.namespace_id = $1 and known.mirror = $2 and known.generation = $3
                    and known.record_hash = given.record_hash and known.column_name = given.column_name)
        ), room as (
            select $10 - (
                select count(*)
                from (
                    select from pathmirror.mirror_error
                    where namespace_id = $1 and mirror = $2 and generation = $3 and starts_with(reason, '\(forNow)') = $12
                    limit $10
                ) as kept
            ) as places
        ), excess as (
            insert into pathmirror.mirror_error_excess (namespace_id, mirror, generation, found)
            select $1, $2, $3, count(*) from fresh, room where place > places having count(*) > 0
            on conflict (namespace_id, mirror, generation) do update
            set found = mirror_error_excess.found + excluded.found, last_found_at = now()
        )
        insert into pathmirror.mirror_error
            (namespace_id, mirror, generation, record_hash, column_name, record, path, seq, value, reason)
        select $1, $2, $3, record_hash, column_name, record, path, seq, value, reason
        from given left join fresh using (n)
        where fresh.place is null or fresh.place <= (select places from room)
        on conflict (namespace_id, mirror, generation, record_hash, column_name) do update
        set path = excluded.path, seq = excluded.seq, value = excluded.value, reason = excluded.reason
        """,
        types: [
            .int8, .uuid, .int8, .textArray, .textArray, .textArray, .int8Array, .textArray, .textArray, .int8, .bool,
            .bool,
        ])

    private static let deleteRecords = PostgresStatement(
        "delete_mirror_errors",
        """
        delete from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3
        and record_hash = any(array(select md5(record)::uuid from unnest($4) as given (record)))
        """, types: [.int8, .uuid, .int8, .textArray])

    private static let deleteBelow = PostgresStatement(
        "delete_mirror_errors_below",
        """
        delete from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3
        and ($4 = '/' or record = $4 or starts_with(record, $4 || '/'))
        """, types: [.int8, .uuid, .int8, .text])

    /// Returns a step that stores errors.
    ///
    /// - Parameters:
    ///   - errors: at most one error per record and column, and per entry if `entries` is true. Either all or none
    ///     begin with `forNow`.
    ///   - limit: the maximum number of stored errors of this kind for the table.
    ///   - entries: whether errors of different entries for one record are separate errors, as in a history with a row
    ///     per entry.
    public static func storeStep(
        _ errors: [MirrorErrorRecord], of table: MirrorGeneration, keeping limit: Int,
        apartByEntries entries: Bool = false
    ) -> PipelineStep {
        var records = PostgresArray(of: .text)
        var columns = PostgresArray(of: .text)
        var paths = PostgresArray(of: .text)
        var seqs = PostgresArray(of: .int8)
        var values = PostgresArray(of: .text)
        var reasons = PostgresArray(of: .text)
        for error in errors {
            records.appendText(error.record)
            columns.appendText(error.column)
            paths.appendText(error.path)
            seqs.appendInt8(error.seq)
            if let value = error.value { values.appendText(value) } else { values.appendNull() }
            reasons.appendText(error.reason)
        }
        var parameters = table.parameters
        for array in [records, columns, paths, seqs, values, reasons] { parameters.append(array) }
        parameters.appendInt8(Int64(limit))
        parameters.appendBool(entries)
        parameters.appendBool(errors.first?.reason.hasPrefix(forNow) ?? false)
        return .prepared(insert, parameters)
    }

    /// Returns a step that removes the errors of the records with these paths.
    public static func removeStep(_ records: [String], of table: MirrorGeneration) -> PipelineStep {
        var paths = PostgresArray(of: .text)
        for record in records { paths.appendText(record) }
        var parameters = table.parameters
        parameters.append(paths)
        return .prepared(deleteRecords, parameters)
    }

    /// Returns a step that removes the errors of all records at or below a path.
    public static func removeStep(below path: String, of table: MirrorGeneration) -> PipelineStep {
        var parameters = table.parameters
        parameters.appendText(path)
        return .prepared(deleteBelow, parameters)
    }

    /// Returns steps that remove all errors of a mirror's tables, and the counts of errors that were not stored.
    public static func forgetSteps(_ table: MirrorGeneration, _ generations: Generations) -> [PipelineStep] {
        ["mirror_error", "mirror_error_excess"].map { name in
            let parameters: PostgresParameters =
                generations == .all ? [.int8(table.namespace), .uuid(table.mirror)] : table.parameters
            return .query(
                "delete from pathmirror.\(name) where namespace_id = $1 and mirror = $2 and generation \(generations.rawValue)",
                parameters)
        }
    }

    /// Returns steps that move the errors of a mirror's table to its next generation, because the table itself becomes
    /// that generation with renamed columns.
    public static func moveSteps(
        _ table: MirrorGeneration, renaming renames: [(old: String, new: String)]
    ) -> [PipelineStep] {
        let next = MirrorGeneration(
            namespace: table.namespace, mirror: table.mirror, generation: table.generation + 1)
        var steps = forgetSteps(next, .from)
        for name in ["mirror_error", "mirror_error_excess"] {
            steps.append(
                .query(
                    """
                    update pathmirror.\(name) set generation = generation + 1
                    where namespace_id = $1 and mirror = $2 and generation = $3
                    """, table.parameters))
        }
        for rename in renames {
            var parameters = next.parameters
            parameters.appendText(rename.old)
            parameters.appendText(rename.new)
            steps.append(
                .query(
                    """
                    update pathmirror.mirror_error set column_name = $5
                    where namespace_id = $1 and mirror = $2 and generation = $3 and column_name = $4
                    """, parameters))
        }
        return steps
    }

    /// Returns the number of errors of the table that were found since its creation and not stored.
    public static func unkept(
        _ target: PostgresConnection, _ table: MirrorGeneration
    ) throws(PostgresError) -> Int64 {
        try target.execute(
            """
            select coalesce(sum(found), 0)::bigint from pathmirror.mirror_error_excess
            where namespace_id = $1 and mirror = $2 and generation = $3
            """, table.parameters
        ).int64(0, 0)
    }

    /// Returns the number of stored errors of the table.
    public static func kept(_ target: PostgresConnection, _ table: MirrorGeneration) throws(PostgresError) -> Int64 {
        try target.execute(
            "select count(*) from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3",
            table.parameters
        ).int64(0, 0)
    }

    /// Returns the stored errors of a mirror's current table, ordered by record, at most `limit`. The times are in
    /// milliseconds since 1970.
    public static func list(
        _ target: PostgresConnection, _ namespace: Int64, _ mirror: [UInt8], limit: Int
    ) throws(PostgresError) -> [(error: MirrorErrorRecord, foundAt: Int64)] {
        let rows = try target.execute(
            """
            select error.column_name, error.record, error.path, error.seq, error.value, error.reason,
                (extract(epoch from error.found_at) * 1000)::bigint
            from pathmirror.mirror_error as error
            join pathmirror.mirror_cursor as live using (namespace_id, mirror, generation)
            where error.namespace_id = $1 and error.mirror = $2 order by error.record, error.column_name limit $3
            """, [.int8(namespace), .uuid(mirror), .int8(Int64(limit))])
        var found: [(error: MirrorErrorRecord, foundAt: Int64)] = []
        for row in 0..<rows.rowCount {
            let error = MirrorErrorRecord(
                record: try rows.string(row, 1), column: try rows.string(row, 0), path: try rows.string(row, 2),
                seq: try rows.int64(row, 3), value: rows.isNull(row, 4) ? nil : try rows.string(row, 4),
                reason: try rows.string(row, 5))
            found.append((error, try rows.int64(row, 6)))
        }
        return found
    }

    /// Returns the paths of the records with stored errors.
    public static func records(
        _ target: PostgresConnection, _ table: MirrorGeneration
    ) throws(PostgresError) -> [String] {
        let rows = try target.execute(
            """
            select distinct record from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3
            """, table.parameters)
        var records: [String] = []
        for row in 0..<rows.rowCount { records.append(try rows.string(row, 0)) }
        return records
    }

    /// Returns records that wait for other tables, by path and position, in the order of their positions.
    ///
    /// - Parameter position: the position of the previous record, or nil to begin with the first.
    public static func waiting(
        _ target: PostgresConnection, _ table: MirrorGeneration, after position: [UInt8]?, limit: Int
    ) throws(PostgresError) -> [(record: String, position: [UInt8])] {
        var parameters = table.parameters
        parameters.append(position.map { .uuid($0) } ?? .null(.uuid))
        parameters.appendInt8(Int64(limit))
        let rows = try target.execute(
            """
            select record, record_hash from pathmirror.mirror_error
            where namespace_id = $1 and mirror = $2 and generation = $3 and column_name = '' and starts_with(reason, '\(forNow)')
                and ($4 is null or record_hash > $4)
            order by record_hash limit $5
            """, parameters)
        var records: [(record: String, position: [UInt8])] = []
        for row in 0..<rows.rowCount { records.append((try rows.string(row, 0), try rows.bytes(row, 1))) }
        return records
    }

    /// Returns those of the records, by path, that have stored errors.
    ///
    /// - Parameter refusedOnly: whether to return only records that the table has rejected as a whole.
    public static func records(
        _ target: PostgresConnection, _ table: MirrorGeneration, among records: [String], refusedOnly: Bool = false
    ) throws(PostgresError) -> Set<[UInt8]> {
        var paths = PostgresArray(of: .text)
        for record in records { paths.appendText(record) }
        var parameters = table.parameters
        parameters.append(paths)
        parameters.appendBool(refusedOnly)
        let rows = try target.execute(
            """
            select distinct record from pathmirror.mirror_error
            where namespace_id = $1 and mirror = $2 and generation = $3 and (column_name = '' or not $5)
            and record_hash = any(array(select md5(record)::uuid from unnest($4) as given (record)))
            """, parameters)
        var found: Set<[UInt8]> = []
        for row in 0..<rows.rowCount { found.insert(try rows.bytes(row, 0)) }
        return found
    }

    /// Returns those rows of a history that the table has rejected. The rows are given by their records' paths and
    /// their entries.
    ///
    /// - Parameter entries: whether the errors of different entries were stored separately.
    /// - Returns: indexes in `rows`.
    public static func refused(
        _ target: PostgresConnection, _ table: MirrorGeneration, of rows: [(record: String, seq: Int64)],
        apartByEntries entries: Bool
    ) throws(PostgresError) -> Set<Int> {
        var paths = PostgresArray(of: .text)
        var seqs = PostgresArray(of: .int8)
        for row in rows {
            paths.appendText(row.record)
            seqs.appendInt8(row.seq)
        }
        var parameters = table.parameters
        parameters.append(paths)
        parameters.append(seqs)
        parameters.appendBool(entries)
        let found = try target.execute(
            """
            select n from unnest($4, $5) with ordinality as given (record, seq, n)
            where exists (
                select from pathmirror.mirror_error as known
                where known.namespace_id = $1 and known.mirror = $2 and known.generation = $3 and known.column_name = ''
                    and known.seq = given.seq and known.record_hash =
                        md5(case when $6 then given.record || ' ' || given.seq else given.record end)::uuid)
            """, parameters)
        var refused: Set<Int> = []
        for row in 0..<found.rowCount { refused.insert(Int(try found.int64(row, 0)) - 1) }
        return refused
    }
}
