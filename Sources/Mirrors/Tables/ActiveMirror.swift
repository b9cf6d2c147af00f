import LogStore
import Postgres
import Tree

/// A mirror as its runner has it: its table, and where its cursor was last.
struct ActiveMirror {
    let id: [UInt8]
    let namespace: Int64
    let generation: Int64
    let table: MirrorTable
    let projector: Projector
    var seq: Int64
    /// Whether errors may be stored: then those of a record that is written anew have to go.
    var mayHaveErrors: Bool
    /// Its last stretch of the log held a row that the table refused: this time rows are tried one by one.
    var isCareful = false
    /// What the stretch being worked on does to it.
    var pending: PendingChanges

    var name: String { table.definition.name }
    var definition: MirrorDefinition { table.definition }

    init(
        id: [UInt8], namespace: Int64, generation: Int64, table: MirrorTable, seq: Int64, mayHaveErrors: Bool
    ) {
        self.id = id
        self.namespace = namespace
        self.generation = generation
        self.table = table
        self.seq = seq
        self.mayHaveErrors = mayHaveErrors
        projector = Projector(table.definition)
        pending = PendingChanges(table.definition.pattern)
    }
}

/// Statements about cursors and errors, in the target database.
enum CursorSQL {
    static let lock = PostgresStatement(
        "lock_mirror_cursors",
        """
        select mirror, seq, generation from pathmirror.mirror_cursor
        where namespace_id = $1 and mirror = any($2) order by mirror for update
        """, types: [.int8, .uuidArray])

    static let move = PostgresStatement(
        "move_mirror_cursors",
        """
        update pathmirror.mirror_cursor set seq = $3, entry_at = coalesce($4, entry_at), moved_at = clock_timestamp()
        where namespace_id = $1 and mirror = any($2)
        """, types: [.int8, .uuidArray, .int8, .timestamptz])

    static let deleteErrors = PostgresStatement(
        "delete_mirror_errors",
        """
        delete from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3
        and record_hash = any(array(select md5(record)::uuid from unnest($4) as given (record)))
        """, types: [.int8, .uuid, .int8, .textArray])

    /// Those of all records at or below a path.
    static let deleteErrorsBelow = PostgresStatement(
        "delete_mirror_errors_below",
        """
        delete from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3
        and ($4 = '/' or record = $4 or starts_with(record, $4 || '/'))
        """, types: [.int8, .uuid, .int8, .text])

    static let insertErrors = PostgresStatement(
        "insert_mirror_errors",
        """
        insert into pathmirror.mirror_error
            (namespace_id, mirror, generation, record_hash, column_name, record, path, seq, value, reason)
        select $1, $2, $3, md5(record)::uuid, column_name, record, path, seq, value, reason
        from unnest($4, $5, $6, $7, $8, $9) as given (record, column_name, path, seq, value, reason)
        on conflict (namespace_id, mirror, generation, record_hash, column_name) do update
        set path = excluded.path, seq = excluded.seq, value = excluded.value, reason = excluded.reason
        """,
        types: [.int8, .uuid, .int8, .textArray, .textArray, .textArray, .int8Array, .textArray, .textArray])

    static func ids(_ mirrors: [ActiveMirror]) -> PostgresArray {
        var ids = PostgresArray(of: .uuid)
        for mirror in mirrors { ids.appendUUID(mirror.id) }
        return ids
    }

    static func errorParameters(_ mirror: ActiveMirror, _ misfits: [Misfit]) -> PostgresParameters {
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
        return parameters
    }
}
