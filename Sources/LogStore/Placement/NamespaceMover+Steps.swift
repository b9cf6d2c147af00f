import Postgres

/// The steps of a mover. Each step checks that it only changes the move's own data.
/// `MoveMachine` decides when a step runs.
extension NamespaceMover {
    private static let mostRounds = 50
    /// The number of attempts to block writers if other locks are in the way.
    private static let mostAttempts = 5
    /// The timeouts limit how long writers wait if the mover or its machine hangs.
    private static let fence =
        "begin isolation level read committed; set local lock_timeout = '2s'; set local statement_timeout = '30s'; set local idle_in_transaction_session_timeout = '10s'"

    // MARK: Beginning

    /// - Parameters:
    ///   - copy: the orphaned copy whose move is recorded again.
    ///   - isAborting: whether the copy will be removed next. The checks are skipped then.
    func begin(adopting copy: Stranger?, isAborting: Bool = false) throws {
        guard let record = try source.connection.namespace(named: namespace) else { return }
        if !isAborting { try refuseMirrors(record.id) }
        try inTransaction(primary) { postgres in
            _ = try postgres.execute("select pathmirror.lock_name($1)", [.text(namespace)])
            let found = try postgres.execute(
                "select database from pathmirror.placement where namespace = $1 and database is not null",
                [.text(namespace)])
            guard try (found.rowCount == 0 ? nil : found.string(0, 0)) == source.placement else {
                throw LogStoreError.misplaced("\"\(namespace)\" is now in another database: run the command again.")
            }
            if !isAborting { try refuseDraining(postgres) }
            _ = try postgres.execute(
                """
                insert into pathmirror.namespace_move (namespace, id, source, target, source_id, stream_key)
                values ($1, coalesce($2::text::uuid, gen_random_uuid()), $3, $4, $5, $6::text::uuid)
                """,
                [
                    .text(namespace), copy.map { .text($0.move) } ?? .null(.text), .text(source.name),
                    .text(target.name), .int8(record.id), .text(record.streamKey),
                ])
        }
    }

    /// A session that drains the database waits for this row lock and then finds the move, or this call finds that the
    /// database is being drained.
    private func refuseDraining(_ postgres: PostgresConnection) throws {
        guard let name = target.placement else { return }
        let free = try postgres.execute(
            "select from pathmirror.database where name = $1 and not is_draining for share", [.text(name)])
        guard free.rowCount == 1 else {
            throw LogStoreError.misplaced("\(name) accepts no new namespaces: it is being drained.")
        }
    }

    // MARK: Copying

    func makeCopy() throws {
        guard let record = try record() else { return }
        try inTransaction(target.connection) { postgres in
            _ = try postgres.execute("select pathmirror.lock_name($1)", [.text(namespace)])
            let living = try postgres.execute(
                "select from pathmirror.namespace where name = $1", [.text(namespace)])
            // The next read of the facts finds it.
            guard living.rowCount == 0 else { return }
            _ = try postgres.execute(
                """
                with made as (
                    insert into pathmirror.namespace (name, created_at) values ($1, '-infinity') returning id
                )
                insert into pathmirror.namespace_copy (namespace_id, namespace, move, source, source_id, stream_key)
                select id, $2, $3::text::uuid, $4, $5, $6::text::uuid from made
                """,
                [
                    .text(NamespaceCopy.hiddenName(namespace)), .text(namespace), .text(record.id),
                    .text(source.name), .int8(record.sourceID), .text(record.streamKey),
                ])
        }
    }

    /// Copies in rounds until little is left, and then removes the namespace from the source.
    func follow() throws {
        guard let record = try record(), let id = try copyID(record, isDormant: true) else { return }
        progress(.copying)
        let copy = try NamespaceCopy(source.connection, record.sourceID, target.connection, id) { [progress] rows in
            progress(.copied(rows: rows))
        }
        try comeNear(copy)
        for attempt in 1... {
            let start = clock()
            do {
                try leave(copy, record)
                return progress(.left(milliseconds: clock() - start))
            } catch {
                guard attempt < Self.mostAttempts, LogStoreError(error).isLockConflict else { throw error }
                _ = try copy.round()
            }
        }
    }

    private func comeNear(_ copy: NamespaceCopy) throws {
        var approach = CopyApproach()
        for number in 1...Self.mostRounds {
            let start = clock()
            let round = try copy.round()
            progress(.followed(entries: round.entries))
            if approach.isNear(entries: round.entries, milliseconds: clock() - start) { return }
            guard number < Self.mostRounds else {
                throw LogStoreError.misplaced(
                    "Clients write to \"\(namespace)\" faster than the move copies it: try again when they write less. Nothing was changed; --abort deletes the copy."
                )
            }
        }
    }

    /// Blocks writers from the lock on. Once it has committed, the source accepts no writes any more.
    private func leave(_ copy: NamespaceCopy, _ record: Record) throws {
        try inTransaction(source.connection, Self.fence) { postgres in
            // Saves of sessions take this lock in shared mode.
            _ = try postgres.execute("select pg_advisory_xact_lock(706174686, hashint8($1))", [.int8(copy.sourceID)])
            let row = try postgres.execute(
                """
                select gen_random_uuid()::text from pathmirror.namespace
                where id = $1 and name = $2 and stream_key = $3::text::uuid for update
                """, [.int8(copy.sourceID), .text(namespace), .text(record.streamKey)])
            guard row.rowCount == 1 else {
                throw LogStoreError.misplaced(
                    "\"\(namespace)\" was removed or replaced in \(source.name) during the move: run the command again."
                )
            }
            let farewell = try row.string(0, 0)
            // From here on the source rejects acknowledgements of feed messages.
            for table in ["feed_progress", "feed_owner"] {
                _ = try postgres.execute(
                    "update pathmirror.\(table) set worker = null, generation = generation + 1 where namespace_id = $1",
                    [.int8(copy.sourceID)])
            }
            // No session can add a mirror while the row is locked.
            try refuseMirrors(copy.sourceID)
            try copy.lastRound(farewell: farewell)
            let left = try postgres.execute(
                """
                with gone as (
                    delete from pathmirror.namespace where id = $1 and stream_key = $4::text::uuid
                    returning id, name, stream_key, head
                )
                insert into pathmirror.former_namespace (id, name, stream_key, head, moved_to, move, farewell)
                select id, name, stream_key, head, $2, $3::text::uuid, $5::text::uuid from gone
                on conflict (id) do update set name = excluded.name, stream_key = excluded.stream_key,
                    removed_at = excluded.removed_at, head = excluded.head, moved_to = excluded.moved_to,
                    move = excluded.move, farewell = excluded.farewell
                """,
                [
                    .int8(copy.sourceID), .text(target.name), .text(record.id), .text(record.streamKey),
                    .text(farewell),
                ])
            guard left.affectedRows == 1 else {
                throw LogStoreError.corrupt("the row of a namespace disappeared while it was locked")
            }
            for table in ["session", "feed_owner"] {
                _ = try postgres.execute(
                    "delete from pathmirror.\(table) where namespace_id = $1", [.int8(copy.sourceID)])
            }
            // Otherwise a gateway could create the namespace again before the primary database names the target.
            if source.isPrimary { try setPlacement(postgres) }
        }
    }

    private func setPlacement(_ postgres: PostgresConnection) throws {
        _ = try postgres.execute(
            "select pathmirror.replace_placement($1, $2)",
            [.text(namespace), target.placement.map { .text($0) } ?? .null(.text)])
    }

    // MARK: Arriving

    /// Activates the copy, and makes gateways look for its feeds and mirrors.
    func arrive() throws {
        guard let record = try record(), let id = try copyID(record, isDormant: true) else { return }
        try inTransaction(target.connection) { postgres in
            _ = try postgres.execute("select pathmirror.lock_name($1)", [.text(namespace)])
            let named = try postgres.execute(
                "update pathmirror.namespace set name = $2 where id = $1 and name = $3",
                [.int8(id), .text(namespace), .text(NamespaceCopy.hiddenName(namespace))])
            let living = try postgres.execute(
                """
                update pathmirror.namespace_copy set is_dormant = false
                where namespace_id = $1 and move = $2::text::uuid and is_dormant
                """, [.int8(id), .text(record.id)])
            guard named.affectedRows == 1, living.affectedRows == 1 else {
                throw LogStoreError.misplaced(
                    "The copy in \(target.name) was changed during the move: run the command again.")
            }
        }
        try announce(to: target)
    }

    private func announce(to database: Database) throws {
        for channel in [LogConnection.feedChannel, LogConnection.mirrorChannel] {
            _ = try database.connection.postgres.execute("select pg_notify('\(channel)', '')")
        }
    }

    /// Records in the primary database that the namespace lives in the target.
    func change() throws {
        guard let record = try record() else { return }
        try inTransaction(primary) { postgres in
            try setPlacement(postgres)
            let noted = try postgres.execute(
                "update pathmirror.namespace_move set has_left = true where namespace = $1 and id = $2::text::uuid",
                [.text(namespace), .text(record.id)])
            guard noted.affectedRows == 1 else {
                throw LogStoreError.misplaced(
                    "The primary database was restored from a backup during the move: run the command again.")
            }
        }
    }

    // MARK: Ending

    func clearUp() throws {
        guard let record = try record() else { return }
        progress(.clearing)
        // Gateways stop their work for the namespace in the source.
        try announce(to: source)
        try source.connection.clearFormerNamespace(record.sourceID, move: record.id)
        try forget()
        try announce(to: target)
    }

    func goBack() throws {
        guard let record = try record() else { return }
        try target.connection.removeCopies(of: record.id, of: namespace)
        try forget()
    }

    func forget() throws {
        guard let record = try record() else { return }
        _ = try primary.postgres.execute(
            "delete from pathmirror.namespace_move where namespace = $1 and id = $2::text::uuid",
            [.text(namespace), .text(record.id)])
    }

    private func inTransaction(
        _ connection: LogConnection, _ begin: String = "begin", _ body: (PostgresConnection) throws -> Void
    ) throws {
        try Self.inTransaction(connection, begin, body)
    }

    static func inTransaction<Result>(
        _ connection: LogConnection, _ begin: String = "begin", _ body: (PostgresConnection) throws -> Result
    ) throws -> Result {
        let postgres = connection.postgres
        try postgres.executeScript(begin)
        do {
            let result = try body(postgres)
            try postgres.executeScript("commit")
            return result
        } catch {
            if postgres.isOpen { try? postgres.executeScript("rollback") }
            throw error
        }
    }
}

/// Decides when a copy is near enough to its source to block writers. Writers then wait for about as long as the last
/// round took. Pure.
struct CopyApproach {
    /// A round with fewer entries or a shorter time is the last one.
    private static let fewEntries: Int64 = 200
    private static let shortMilliseconds: Int64 = 100
    /// A longer round with many entries is never the last one, and neither is a longer first round.
    private static let longMilliseconds: Int64 = 1_000

    private var lastMilliseconds = Int64.max

    /// Whether the round that has just ended was the last one. Another round is worthwhile as long as each takes less
    /// than three quarters of the time of the previous one.
    mutating func isNear(entries: Int64, milliseconds: Int64) -> Bool {
        defer { lastMilliseconds = milliseconds }
        if milliseconds < Self.shortMilliseconds { return true }
        let isLong = milliseconds >= Self.longMilliseconds
        // A long first round copied the whole tree, and many entries may have been written meanwhile.
        if entries < Self.fewEntries { return !isLong || lastMilliseconds < .max }
        return !isLong && milliseconds >= lastMilliseconds / 4 * 3
    }
}
