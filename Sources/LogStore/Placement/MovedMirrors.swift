import Crypto
public import Postgres

/// What the databases say of mirrors whose namespace moves.
public enum MovedMirrors {
    /// Keeps a copy dormant until the transaction ends.
    ///
    /// - Throws: `misplaced` where it is not: a mover that stood still finds that another one has finished.
    public static func hold(_ copy: MovingCopy, _ target: PostgresConnection) throws {
        let dormant = try target.execute(
            """
            select from pathmirror.namespace_copy
            where namespace_id = $1 and move = $2::text::uuid and is_dormant for share
            """, [.int8(copy.targetID), .text(copy.move)])
        guard dormant.rowCount == 1 else {
            throw LogStoreError.misplaced("Somebody else has gone on with the move: run the command again.")
        }
    }

    /// Gives a copy a mirror of the source, as one that is paused, so that nobody looks for its table before there is one.
    ///
    /// - Parameter isHistory: what its records were comes along, and up to which entry, in a cursor of generation 0: one without a
    ///   table.
    public static func add(
        _ mirror: [UInt8], isHistory: Bool, to copy: MovingCopy, source: PostgresConnection, target: PostgresConnection,
        onRows: @escaping (Int) -> Void
    ) throws {
        let pipe = RowPipe(
            source: source, target: target, sourceID: copy.sourceID, targetID: copy.targetID, onRows: onRows)
        let id = "'\(Hex.encode(mirror))'::uuid"
        // Cursor and versions as of one moment.
        try source.executeScript("begin isolation level repeatable read read only")
        defer { if source.isOpen { try? source.executeScript("rollback") } }
        try inTransaction(target) {
            try hold(copy, target)
            for (table, column) in [("mirror", "id"), ("mirror_cursor", "mirror"), ("mirror_version", "mirror")] {
                _ = try target.execute(
                    "delete from pathmirror.\(table) where namespace_id = $1 and \(column) = $2",
                    [.int8(copy.targetID), .uuid(mirror)])
            }
            _ = try pipe.copy("mirror", "n.id = \(id)", ["is_paused": "true"])
            guard isHistory else { return }
            _ = try pipe.copy("mirror_cursor", "n.mirror = \(id)", ["generation": "0"])
            _ = try pipe.copy("mirror_version", "n.mirror = \(id)")
        }
    }

    /// Takes a mirror that the source does not have out of a copy, in a transaction that is open.
    public static func remove(_ mirror: [UInt8], from copy: MovingCopy, _ target: PostgresConnection) throws {
        try hold(copy, target)
        _ = try target.execute(
            "delete from pathmirror.mirror where namespace_id = $1 and id = $2",
            [.int8(copy.targetID), .uuid(mirror)])
    }

    /// Has gateways follow a copy's mirror, which has its table.
    public static func resume(_ mirror: [UInt8], of copy: MovingCopy, _ target: PostgresConnection) throws {
        try inTransaction(target) {
            try hold(copy, target)
            _ = try target.execute(
                "update pathmirror.mirror set is_paused = false, updated_at = clock_timestamp() where namespace_id = $1 and id = $2",
                [.int8(copy.targetID), .uuid(mirror)])
            _ = try target.execute("select pg_notify($1, '')", [.text(LogConnection.mirrorChannel)])
        }
    }

    /// Has the table of a mirror in a third database go on with the copy, which has the same log.
    public static func follow(_ mirror: [UInt8], _ copy: MovingCopy, _ target: PostgresConnection) throws {
        try inTransaction(target) {
            let tables = try target.execute(
                """
                select relname from pg_class
                where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p') and not relispartition
                    and exists (select from pg_attribute where attrelid = pg_class.oid and attname = 'namespace_id')
                    and exists (select from pg_attribute where attrelid = pg_class.oid and attname = 'mirror')
                    and relname like 'mirror\\_%' and relname <> 'mirror_run'
                order by relname
                """)
            for row in 0..<tables.rowCount {
                _ = try target.execute(
                    "update pathmirror.\(quotedIdentifier(try tables.string(row, 0))) set namespace_id = $1 where namespace_id = $2 and mirror = $3",
                    [.int8(copy.targetID), .int8(copy.sourceID), .uuid(mirror)])
            }
        }
    }

    private static func inTransaction(_ connection: PostgresConnection, _ body: () throws -> Void) throws {
        try connection.executeScript("begin")
        do {
            try body()
            try connection.executeScript("commit")
        } catch {
            if connection.isOpen { try? connection.executeScript("rollback") }
            throw error
        }
    }
}
