public import Postgres

/// The cursor of a mirror's table, as stored in the database of the table.
public struct MirrorCursorRecord: Sendable {
    public let mirror: [UInt8]
    /// Its batch is nil if the cursor has not moved since batches are stored.
    public let position: LogPosition
    public let generation: Int64
    /// The definition of the table, as JSON.
    public let definition: [UInt8]
    public let hasErrors: Bool
    /// The beginning of the history if the table is a history, otherwise nil.
    public var begins: MirrorHistoryBeginning?

    public var seq: Int64 { position.seq }
}

/// The beginning of a mirror's history.
public struct MirrorHistoryBeginning: Sendable, Equatable {
    /// The first entry from which on the history is complete.
    public let seq: Int64
    /// The commit time of the entry before `seq`, in milliseconds since 1970. Nil at the beginning of the log, or if
    /// unknown.
    public let at: Int64?

    public init(seq: Int64, at: Int64?) {
        self.seq = seq
        self.at = at
    }
}

/// The cursors of mirrors: rows of `pathmirror.mirror_cursor` in the database of the mirrors' tables, which may differ
/// from the gateways' database. Cursors move in the transactions that change the tables, so most functions return
/// pipeline steps.
public enum MirrorCursors {
    /// Skips cursors locked by other transactions instead of waiting for them.
    private static let lock = PostgresStatement(
        "lock_mirror_cursors",
        """
        select mirror, seq, generation from pathmirror.mirror_cursor
        where namespace_id = $1 and mirror = any($2) order by mirror for update skip locked
        """, types: [.int8, .uuidArray])

    private static let held = PostgresStatement(
        "held_mirror_cursors",
        """
        select mirror from pathmirror.mirror_cursor where namespace_id = $1 and mirror = any($2)
        except all select mirror from (
            select mirror from pathmirror.mirror_cursor
            where namespace_id = $1 and mirror = any($2) for update skip locked) as free
        """, types: [.int8, .uuidArray])

    private static let move = PostgresStatement(
        "move_mirror_cursors",
        """
        update pathmirror.mirror_cursor
        set seq = $3, entry_at = coalesce($4, entry_at), batch = coalesce($5, batch), moved_at = clock_timestamp()
        where namespace_id = $1 and mirror = any($2)
        """, types: [.int8, .uuidArray, .int8, .timestamptz, .uuid])

    /// Reads the cursors of some mirrors of a namespace. Mirrors without a table have none.
    ///
    /// - Parameter locking: whether to lock the cursors until the transaction ends.
    public static func read(
        _ target: PostgresConnection, _ namespace: Int64, _ mirrors: [[UInt8]], locking: Bool = false
    ) throws(PostgresError) -> [MirrorCursorRecord] {
        // Locking is a separate statement: if it waits for a transaction that moves a cursor, it continues with the new
        // version of that row, but with old versions of all other rows, such as errors.
        if locking {
            _ = try target.execute(
                "select from pathmirror.mirror_cursor where namespace_id = $1 and mirror = any($2) order by mirror for update",
                [.int8(namespace), .array(ids(mirrors))])
        }
        let rows = try target.execute(
            """
            select mirror, seq, generation, definition::text, exists (
                select from pathmirror.mirror_error as error
                where error.namespace_id = $1 and error.mirror = live.mirror and error.generation = live.generation), batch,
                begins_at_seq, (extract(epoch from begins_at) * 1000)::bigint
            from pathmirror.mirror_cursor as live where namespace_id = $1 and mirror = any($2)
            """, [.int8(namespace), .array(ids(mirrors))])
        var cursors: [MirrorCursorRecord] = []
        for row in 0..<rows.rowCount {
            var cursor = MirrorCursorRecord(
                mirror: try rows.bytes(row, 0),
                position: LogPosition(
                    seq: try rows.int64(row, 1), batch: rows.isNull(row, 5) ? nil : try rows.bytes(row, 5)),
                generation: try rows.int64(row, 2),
                definition: try rows.bytes(row, 3), hasErrors: try rows.bool(row, 4))
            if !rows.isNull(row, 6) {
                cursor.begins = MirrorHistoryBeginning(
                    seq: try rows.int64(row, 6), at: rows.isNull(row, 7) ? nil : try rows.int64(row, 7))
            }
            cursors.append(cursor)
        }
        return cursors
    }

    /// Returns a step that locks cursors until the transaction ends. `locked` reads its result.
    /// Skips cursors locked by other transactions.
    public static func lockStep(_ namespace: Int64, _ mirrors: [[UInt8]]) -> PipelineStep {
        .prepared(lock, [.int8(namespace), .array(ids(mirrors))])
    }

    /// Returns the cursors that a `lockStep` has locked.
    public static func locked(
        _ result: PostgresResult
    ) throws(PostgresError) -> [(mirror: [UInt8], seq: Int64, generation: Int64)] {
        var cursors: [(mirror: [UInt8], seq: Int64, generation: Int64)] = []
        for row in 0..<result.rowCount {
            cursors.append((try result.bytes(row, 0), try result.int64(row, 1), try result.int64(row, 2)))
        }
        return cursors
    }

    /// Returns the mirrors whose existing cursors are locked by other transactions.
    public static func held(
        _ target: PostgresConnection, _ namespace: Int64, _ mirrors: [[UInt8]]
    ) throws(PostgresError) -> [[UInt8]] {
        let rows = try target.executePrepared(held, [.int8(namespace), .array(ids(mirrors))])
        var found: [[UInt8]] = []
        for row in 0..<rows.rowCount { found.append(try rows.bytes(row, 0)) }
        return found
    }

    /// Returns a step that moves cursors.
    ///
    /// - Parameters:
    ///   - position: a batch of nil keeps the stored batch.
    ///   - time: the commit time of the entry before the position, in milliseconds since 1970. Nil keeps the stored time.
    public static func moveStep(
        _ namespace: Int64, _ mirrors: [[UInt8]], to position: LogPosition, _ time: Int64?
    ) -> PipelineStep {
        var parameters: PostgresParameters = [.int8(namespace), .array(ids(mirrors)), .int8(position.seq)]
        if let time {
            parameters.appendTimestamp(unixMicroseconds: time * 1_000)
        } else {
            parameters.appendNull(.timestamptz)
        }
        if let batch = position.batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
        return .prepared(move, parameters)
    }

    /// Locks one cursor, waiting for other transactions, and returns its generation, or nil if there is no cursor.
    public static func lockedGeneration(
        _ target: PostgresConnection, _ namespace: Int64, _ mirror: [UInt8]
    ) throws(PostgresError) -> Int64? {
        let rows = try target.execute(
            """
            select generation from pathmirror.mirror_cursor where namespace_id = $1 and mirror = $2 for update
            """, [.int8(namespace), .uuid(mirror)])
        return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
    }

    /// Creates a mirror's cursor, or replaces it after another table has become the mirror's table.
    public static func put(
        _ target: PostgresConnection, _ namespace: Int64, _ cursor: MirrorCursorRecord
    ) throws(PostgresError) {
        var parameters: PostgresParameters = [
            .int8(namespace), .uuid(cursor.mirror), .int8(cursor.position.seq), .int8(cursor.generation),
        ]
        parameters.appendJSON(cursor.definition)
        if let batch = cursor.position.batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
        _ = try target.execute(
            """
            insert into pathmirror.mirror_cursor (namespace_id, mirror, seq, generation, definition, batch)
            values ($1, $2, $3, $4, $5, $6) on conflict (namespace_id, mirror) do update
            set seq = excluded.seq, generation = excluded.generation, definition = excluded.definition,
                batch = excluded.batch, entry_at = null, moved_at = clock_timestamp()
            """, parameters)
    }

    /// Returns a step that sets the definition and the generation of a mirror's table. The generation changes if writes
    /// under the old definition's names must not succeed any more.
    public static func redefineStep(
        _ namespace: Int64, _ mirror: [UInt8], definition: [UInt8], generation: Int64
    ) -> PipelineStep {
        var parameters: PostgresParameters = [.int8(namespace), .uuid(mirror), .int8(generation)]
        parameters.appendJSON(definition)
        return .query(
            """
            update pathmirror.mirror_cursor set definition = $4, generation = $3
            where namespace_id = $1 and mirror = $2
            """, parameters)
    }

    /// Returns a step that stores the beginning of a mirror's history.
    public static func beginStep(
        _ namespace: Int64, _ mirror: [UInt8], _ beginning: MirrorHistoryBeginning
    ) -> PipelineStep {
        var parameters: PostgresParameters = [.int8(namespace), .uuid(mirror), .int8(beginning.seq)]
        if let at = beginning.at {
            parameters.appendTimestamp(unixMicroseconds: at * 1_000)
        } else {
            parameters.appendNull(.timestamptz)
        }
        return .query(
            """
            update pathmirror.mirror_cursor set begins_at_seq = $3, begins_at = $4 where namespace_id = $1 and mirror = $2
            """, parameters)
    }

    /// Returns a step that removes a mirror's cursor.
    public static func removeStep(_ namespace: Int64, _ mirror: [UInt8]) -> PipelineStep {
        .query(
            "delete from pathmirror.mirror_cursor where namespace_id = $1 and mirror = $2",
            [.int8(namespace), .uuid(mirror)])
    }

    private static func ids(_ mirrors: [[UInt8]]) -> PostgresArray {
        var ids = PostgresArray(of: .uuid)
        for mirror in mirrors { ids.appendUUID(mirror) }
        return ids
    }
}

extension MirrorCursorRecord {
    /// Creates a cursor for `MirrorCursors.put`. Errors of the table are stored already, if there are any.
    public init(mirror: [UInt8], position: LogPosition, generation: Int64, definition: [UInt8]) {
        self.init(
            mirror: mirror, position: position, generation: generation, definition: definition, hasErrors: false)
    }
}

/// Queries with which other programs check how current a mirror is.
public enum MirrorFreshness {
    /// Returns a query without parameters for the time up to which a mirror's table contains all writes.
    ///
    /// - Parameters:
    ///   - namespace: the namespace's name.
    ///   - mirror: the mirror's name.
    public static func query(namespace: String, mirror: String) -> String {
        """
        select now() - coalesce(lag, interval '0') from pathmirror.mirror_status \
        where namespace = \(literal(namespace)) and name = \(literal(mirror))
        """
    }

    private static func literal(_ name: String) -> String {
        "'" + name.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
    }
}
