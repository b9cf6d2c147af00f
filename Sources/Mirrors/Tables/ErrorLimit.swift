import Postgres

/// Stores what doesn't fit, up to as many errors as the mirror's definition has kept; more are counted only. Thus writers
/// who write what doesn't fit can't fill the disk with errors.
enum ErrorLimit {
    /// What is known already is brought up to date, whatever the limit.
    private static let insert = PostgresStatement(
        "insert_mirror_errors",
        """
        with given as (
            select md5(record)::uuid as record_hash, given.*
            from unnest($4, $5, $6, $7, $8, $9) with ordinality
                as given (record, column_name, path, seq, value, reason, n)
        ), fresh as (
            select n, row_number() over (order by n) as place from given
            where not exists (
                select from pathmirror.mirror_error as known
                where known.namespace_id = $1 and known.mirror = $2 and known.generation = $3
                    and known.record_hash = given.record_hash and known.column_name = given.column_name)
        ), room as (
            select $10 - count(*) as places
            from (
                select from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3 limit $10
            ) as kept
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
            .int8, .uuid, .int8, .textArray, .textArray, .textArray, .int8Array, .textArray, .textArray, .int8,
        ])

    /// - Parameter misfits: no two of a record and column.
    static func storing(_ misfits: [ConversionError], of mirror: ActiveMirror) -> PipelineStep {
        var records = PostgresArray(of: .text)
        var columns = PostgresArray(of: .text)
        var paths = PostgresArray(of: .text)
        var seqs = PostgresArray(of: .int8)
        var values = PostgresArray(of: .text)
        var reasons = PostgresArray(of: .text)
        for misfit in misfits {
            records.appendText(misfit.record)
            columns.appendText(misfit.column)
            paths.appendText(misfit.path)
            seqs.appendInt8(misfit.seq)
            if let value = misfit.value { values.appendText(value) } else { values.appendNull() }
            reasons.appendText(misfit.reason)
        }
        var parameters: PostgresParameters = [.int8(mirror.namespace), .uuid(mirror.id), .int8(mirror.generation)]
        for array in [records, columns, paths, seqs, values, reasons] { parameters.append(array) }
        parameters.appendInt8(Int64(mirror.definition.keptErrors))
        return .prepared(insert, parameters)
    }

    /// How many errors of the mirror's table were found and not kept since it was made.
    static func unkept(_ connection: PostgresConnection, _ mirror: ActiveMirror) throws -> Int64 {
        try connection.execute(
            """
            select coalesce(sum(found), 0)::bigint from pathmirror.mirror_error_excess
            where namespace_id = $1 and mirror = $2 and generation = $3
            """, [.int8(mirror.namespace), .uuid(mirror.id), .int8(mirror.generation)]
        ).int64(0, 0)
    }

    /// Errors of the mirror's table that are kept.
    static func kept(_ connection: PostgresConnection, _ mirror: ActiveMirror) throws -> Int64 {
        try connection.execute(
            "select count(*) from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3",
            [.int8(mirror.namespace), .uuid(mirror.id), .int8(mirror.generation)]
        ).int64(0, 0)
    }

    /// Forgets all errors of a mirror whose table's generation is as `condition` says, `$3` being `generation`.
    static func forgetting(
        _ namespace: Int64, _ mirror: [UInt8], where condition: String = "generation >= $3", _ generation: Int64 = 0
    ) -> [PipelineStep] {
        ["mirror_error", "mirror_error_excess"].map { table in
            .query(
                "delete from pathmirror.\(table) where namespace_id = $1 and mirror = $2 and \(condition)",
                [.int8(namespace), .uuid(mirror), .int8(generation)])
        }
    }
}
