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
    /// The batch of the entry there; nil where nobody knows it yet.
    var batch: [UInt8]?
    /// Whether errors may be stored: then those of a record that is written anew have to go.
    var mayHaveErrors: Bool
    /// Its last stretch of the log held a row that the table refused: this time rows are tried one by one.
    var isCareful = false
    /// What the stretch being worked on does to it.
    var pending: PendingChanges

    var name: String { table.definition.name }
    var definition: MirrorDefinition { table.definition }

    init(
        id: [UInt8], namespace: Int64, generation: Int64, table: MirrorTable, seq: Int64, batch: [UInt8]?,
        mayHaveErrors: Bool
    ) {
        self.id = id
        self.namespace = namespace
        self.generation = generation
        self.table = table
        self.seq = seq
        self.batch = batch
        self.mayHaveErrors = mayHaveErrors
        projector = Projector(table.definition)
        pending = PendingChanges(table.definition.pattern)
    }
}

/// Statements about cursors and errors, in the target database.
enum CursorSQL {
    /// Those that somebody else holds are left out, so that nobody waits for them.
    static let lock = PostgresStatement(
        "lock_mirror_cursors",
        """
        select mirror, seq, generation from pathmirror.mirror_cursor
        where namespace_id = $1 and mirror = any($2) order by mirror for update skip locked
        """, types: [.int8, .uuidArray])

    /// Of the cursors that are there, the ones that somebody else holds.
    static let held = PostgresStatement(
        "held_mirror_cursors",
        """
        select mirror from pathmirror.mirror_cursor where namespace_id = $1 and mirror = any($2)
        except all select mirror from (
            select mirror from pathmirror.mirror_cursor
            where namespace_id = $1 and mirror = any($2) for update skip locked) as free
        """, types: [.int8, .uuidArray])

    static let move = PostgresStatement(
        "move_mirror_cursors",
        """
        update pathmirror.mirror_cursor
        set seq = $3, entry_at = coalesce($4, entry_at), batch = coalesce($5, batch), moved_at = clock_timestamp()
        where namespace_id = $1 and mirror = any($2)
        """, types: [.int8, .uuidArray, .int8, .timestamptz, .uuid])

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

    static func ids(_ mirrors: [ActiveMirror]) -> PostgresArray {
        var ids = PostgresArray(of: .uuid)
        for mirror in mirrors { ids.appendUUID(mirror.id) }
        return ids
    }
}
