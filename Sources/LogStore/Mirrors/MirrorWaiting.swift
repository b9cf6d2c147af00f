public import Postgres

/// A value that a unique index of a mirror allows once.
public struct UniqueValue: Sendable, Hashable {
    /// Which of the unique indexes.
    public let slot: Int64
    /// PostgreSQL's hash of the values.
    public let hash: Int64

    public init(slot: Int64, hash: Int64) {
        self.slot = slot
        self.hash = hash
    }
}

/// Records of mirrors that have no row, as another row has the values that a unique index allows once: rows of
/// `pathmirror.mirror_waiting` in the database of the table. Each waits for one value; where one comes free that somebody waits
/// for, it is noted in `pathmirror.mirror_freed` until the records have been looked at.
public enum MirrorWaiting {
    /// The records that wait.
    public static let waitingTable = "pathmirror.mirror_waiting"
    /// The values that came free.
    public static let freedTable = "pathmirror.mirror_freed"
    static let tables = ["mirror_waiting", "mirror_freed"]

    private static let remove = PostgresStatement(
        "remove_mirror_waiting",
        "delete from pathmirror.mirror_waiting where namespace_id = $1 and mirror = $2 and generation = $3 and key = any($4)",
        types: [.int8, .uuid, .int8, .textArray])

    private static let removeBelow = PostgresStatement(
        "remove_mirror_waiting_below",
        """
        delete from pathmirror.mirror_waiting where namespace_id = $1 and mirror = $2 and generation = $3
        and (key = $4 or key >= $5 and key < $6)
        """, types: [.int8, .uuid, .int8, .text, .text, .text])

    private static let first = PostgresStatement(
        "first_mirror_waiting",
        """
        select freed.slot::bigint, freed.hash, first.key
        from (
            select slot, hash from pathmirror.mirror_freed
            where namespace_id = $1 and mirror = $2 and generation = $3 order by slot, hash limit $4
        ) as freed
        left join lateral (
            select key from pathmirror.mirror_waiting as waiting
            where waiting.namespace_id = $1 and waiting.mirror = $2 and waiting.generation = $3
                and waiting.slot = freed.slot and waiting.hash = freed.hash
            order by key limit 1
        ) as first on true
        """, types: [.int8, .uuid, .int8, .int8])

    private static let settle = PostgresStatement(
        "settle_mirror_freed",
        """
        delete from pathmirror.mirror_freed as freed using unnest($4, $5) as given (slot, hash)
        where namespace_id = $1 and mirror = $2 and generation = $3 and freed.slot = given.slot and freed.hash = given.hash
        """, types: [.int8, .uuid, .int8, .int8Array, .int8Array])

    /// Records, by their keys, wait no more.
    public static func removeStep(_ keys: [String], of table: MirrorGeneration) -> PipelineStep {
        var parameters = table.parameters
        parameters.append(texts(keys))
        return .prepared(remove, parameters)
    }

    /// Records at or below some captured keys wait no more; without keys, all of them.
    ///
    /// - Parameter key: the captured keys, joined by `/`; nil for none.
    public static func removeStep(below key: String?, of table: MirrorGeneration) -> PipelineStep {
        guard let key else {
            return .query(
                "delete from pathmirror.mirror_waiting where namespace_id = $1 and mirror = $2 and generation = $3",
                table.parameters)
        }
        var parameters = table.parameters
        // What comes behind the slash is `0`.
        for text in [key, key + "/", key + "0"] { parameters.appendText(text) }
        return .prepared(removeBelow, parameters)
    }

    /// Values that came free, at most so many, each with the first record that waits for it, if one does still.
    public static func freed(
        _ target: PostgresConnection, _ table: MirrorGeneration, limit: Int
    ) throws(PostgresError) -> [(value: UniqueValue, key: String?)] {
        var parameters = table.parameters
        parameters.appendInt8(Int64(limit))
        let rows = try target.executePrepared(first, parameters)
        var found: [(value: UniqueValue, key: String?)] = []
        for row in 0..<rows.rowCount {
            let value = UniqueValue(slot: try rows.int64(row, 0), hash: try rows.int64(row, 1))
            found.append((value, rows.isNull(row, 2) ? nil : try rows.string(row, 2)))
        }
        return found
    }

    /// Nobody is to be looked at for these values any more.
    public static func settledStep(_ values: [UniqueValue], of table: MirrorGeneration) -> PipelineStep {
        var slots = PostgresArray(of: .int8)
        var hashes = PostgresArray(of: .int8)
        for value in values {
            slots.appendInt8(value.slot)
            hashes.appendInt8(value.hash)
        }
        var parameters = table.parameters
        parameters.append(slots)
        parameters.append(hashes)
        return .prepared(settle, parameters)
    }

    /// How many records wait.
    public static func count(_ target: PostgresConnection, _ table: MirrorGeneration) throws(PostgresError) -> Int64 {
        try target.execute(
            "select count(*) from pathmirror.mirror_waiting where namespace_id = $1 and mirror = $2 and generation = $3",
            table.parameters
        ).int64(0, 0)
    }

    /// Whether any record waits.
    public static func isAnyone(_ target: PostgresConnection, _ table: MirrorGeneration) throws(PostgresError) -> Bool {
        try target.execute(
            """
            select exists (
                select from pathmirror.mirror_waiting where namespace_id = $1 and mirror = $2 and generation = $3)
            """, table.parameters
        ).bool(0, 0)
    }

    /// The rows that records would have get other names for their columns.
    static func renameStep(_ table: MirrorGeneration, _ renames: [(old: String, new: String)]) -> PipelineStep {
        var parameters = table.parameters
        parameters.append(texts(renames.map(\.old)))
        parameters.append(texts(renames.map(\.new)))
        return .query(
            """
            update pathmirror.mirror_waiting
            set made = (
                select jsonb_object_agg(coalesce(given.new, member.key), member.value)
                from jsonb_each(made) as member
                left join unnest($4::text[], $5::text[]) as given (old, new) on given.old = member.key)
            where namespace_id = $1 and mirror = $2 and generation = $3
            """, parameters)
    }

    private static func texts(_ texts: [String]) -> PostgresArray {
        var array = PostgresArray(of: .text)
        for text in texts { array.appendText(text) }
        return array
    }
}
