public import Postgres

/// Where a mirror's table is, as the database says that has the table.
public struct MirrorCursorRecord: Sendable {
    public let mirror: [UInt8]
    public let seq: Int64
    /// The batch of the entry there; nil in a cursor that has not moved since this is kept.
    public let batch: [UInt8]?
    public let generation: Int64
    /// The definition that the table obeys, as JSON.
    public let definition: [UInt8]
    public let hasErrors: Bool
    /// Where the history begins that the table is; nil for a table that is none.
    public var begins: MirrorHistoryBeginning?
}

/// Where a mirror's history begins.
public struct MirrorHistoryBeginning: Sendable, Equatable {
    /// The first entry that the history has all of.
    public let seq: Int64
    /// When the entry before it was committed, in milliseconds since 1970; nil for the beginning of the log, or where nobody knows.
    public let at: Int64?

    public init(seq: Int64, at: Int64?) {
        self.seq = seq
        self.at = at
    }
}

/// Cursors of mirrors: rows of `pathmirror.mirror_cursor` in the database of the mirrors' tables, which need not be the
/// gateways'. Cursors move in the transactions that change the tables; therefore most of this is steps for a pipeline.
public enum MirrorCursors {
    /// Cursors that somebody else holds are left out, so that nobody waits for them.
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

    /// The cursors of some mirrors of a namespace; mirrors without a table have none.
    ///
    /// - Parameter locking: keeps them from moving until the transaction ends.
    public static func read(
        _ target: PostgresConnection, _ namespace: Int64, _ mirrors: [[UInt8]], locking: Bool = false
    ) throws(PostgresError) -> [MirrorCursorRecord] {
        // By a statement of its own: where it waits for who moves a cursor, it goes on with the row as that one has left it,
        // but with all other rows, such as errors, as they were when it began.
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
                mirror: try rows.bytes(row, 0), seq: try rows.int64(row, 1),
                batch: rows.isNull(row, 5) ? nil : try rows.bytes(row, 5), generation: try rows.int64(row, 2),
                definition: try rows.bytes(row, 3), hasErrors: try rows.bool(row, 4))
            if !rows.isNull(row, 6) {
                cursor.begins = MirrorHistoryBeginning(
                    seq: try rows.int64(row, 6), at: rows.isNull(row, 7) ? nil : try rows.int64(row, 7))
            }
            cursors.append(cursor)
        }
        return cursors
    }

    /// Locks cursors until the transaction ends; `locked` reads which those are. Cursors that somebody else holds are left out.
    public static func lockStep(_ namespace: Int64, _ mirrors: [[UInt8]]) -> PipelineStep {
        .prepared(lock, [.int8(namespace), .array(ids(mirrors))])
    }

    /// The cursors that a `lockStep` has locked.
    public static func locked(
        _ result: PostgresResult
    ) throws(PostgresError) -> [(mirror: [UInt8], seq: Int64, generation: Int64)] {
        var cursors: [(mirror: [UInt8], seq: Int64, generation: Int64)] = []
        for row in 0..<result.rowCount {
            cursors.append((try result.bytes(row, 0), try result.int64(row, 1), try result.int64(row, 2)))
        }
        return cursors
    }

    /// Of the cursors that are there, the mirrors whose cursors somebody else holds.
    public static func held(
        _ target: PostgresConnection, _ namespace: Int64, _ mirrors: [[UInt8]]
    ) throws(PostgresError) -> [[UInt8]] {
        let rows = try target.executePrepared(held, [.int8(namespace), .array(ids(mirrors))])
        var found: [[UInt8]] = []
        for row in 0..<rows.rowCount { found.append(try rows.bytes(row, 0)) }
        return found
    }

    /// Moves cursors to an entry.
    ///
    /// - Parameters:
    ///   - time: when the entry was committed, in milliseconds since 1970; nil leaves what is there.
    ///   - batch: the entry's; nil leaves what is there.
    public static func moveStep(
        _ namespace: Int64, _ mirrors: [[UInt8]], to seq: Int64, _ time: Int64?, batch: [UInt8]?
    ) -> PipelineStep {
        var parameters: PostgresParameters = [.int8(namespace), .array(ids(mirrors)), .int8(seq)]
        if let time {
            parameters.appendTimestamp(unixMicroseconds: time * 1_000)
        } else {
            parameters.appendNull(.timestamptz)
        }
        if let batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
        return .prepared(move, parameters)
    }

    /// Locks one cursor, waiting for who holds it, and reads its generation; nil where there is none.
    public static func lockedGeneration(
        _ target: PostgresConnection, _ namespace: Int64, _ mirror: [UInt8]
    ) throws(PostgresError) -> Int64? {
        let rows = try target.execute(
            """
            select generation from pathmirror.mirror_cursor where namespace_id = $1 and mirror = $2 for update
            """, [.int8(namespace), .uuid(mirror)])
        return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
    }

    /// Makes a mirror's cursor, or sets all of it: another table has taken the mirror's place.
    public static func put(
        _ target: PostgresConnection, _ namespace: Int64, _ cursor: MirrorCursorRecord
    ) throws(PostgresError) {
        var parameters: PostgresParameters = [
            .int8(namespace), .uuid(cursor.mirror), .int8(cursor.seq), .int8(cursor.generation),
        ]
        parameters.appendJSON(cursor.definition)
        if let batch = cursor.batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
        _ = try target.execute(
            """
            insert into pathmirror.mirror_cursor (namespace_id, mirror, seq, generation, definition, batch)
            values ($1, $2, $3, $4, $5, $6) on conflict (namespace_id, mirror) do update
            set seq = excluded.seq, generation = excluded.generation, definition = excluded.definition,
                batch = excluded.batch, entry_at = null, moved_at = clock_timestamp()
            """, parameters)
    }

    /// Sets the definition that a mirror's table obeys, and the table's generation: another one where what was written with
    /// the old definition's names can't be written any more.
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

    /// Notes where a mirror's history begins.
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

    /// Removes a mirror's cursor.
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
    /// A cursor for `MirrorCursors.put`, of a table whose errors, if any, are stored already.
    public init(mirror: [UInt8], seq: Int64, batch: [UInt8]?, generation: Int64, definition: [UInt8]) {
        self.init(
            mirror: mirror, seq: seq, batch: batch, generation: generation, definition: definition, hasErrors: false)
    }
}

/// What other programs ask of how far a mirror has come.
public enum MirrorFreshness {
    /// A query, for programs that take no parameters: as of when a mirror's table has all that was written.
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
