import Postgres

/// Moves a namespace to another database while clients write: see docs/placement.md. It may end at any instant; another one goes
/// on, or back, from what it finds. One mover of a namespace at a time.
public final class NamespaceMover {
    /// A database of a move: how it is called, and two sessions' worth of access to it.
    public struct Place {
        public let name: String
        public let connection: LogConnection

        public init(name: String, connection: LogConnection) {
            self.name = name
            self.connection = connection
        }

        var isHome: Bool { name == DatabaseRecord.home }
        /// As placements name it.
        var placement: String? { isHome ? nil : name }
    }

    /// How far it is, for people.
    public enum Progress: Sendable, Equatable {
        case copying
        /// So many more rows.
        case copied(rows: Int)
        case followed(entries: Int64)
        case left(milliseconds: Int64)
        case clearing
    }

    let namespace: String
    let home: LogConnection
    let source: Place
    let target: Place
    private let progress: (Progress) -> Void
    private let clock: () -> Int64

    /// A round that brings fewer entries, or takes no longer, is the last before writers are held up.
    private static let fewEntries: Int64 = 200
    private static let shortMilliseconds: Int64 = 1_000
    private static let mostRounds = 50
    /// So often it tries to hold writers up where locks of others are in the way.
    private static let mostAttempts = 5

    /// - Parameters:
    ///   - home, source, target: three sessions, also where databases are the same.
    ///   - clock: monotonic milliseconds.
    public init(
        _ namespace: String, home: LogConnection, from source: Place, to target: Place, clock: @escaping () -> Int64,
        progress: @escaping (Progress) -> Void
    ) {
        self.namespace = namespace
        self.home = home
        self.source = source
        self.target = target
        self.progress = progress
        self.clock = clock
    }

    /// Does what is wished, step by step.
    ///
    /// - Throws: `misplaced` where it can't be done.
    public func run(_ wish: MoveMachine.Wish) throws {
        try lock(home, seed: 7_061_746_864)
        try lock(source.connection, seed: 7_061_746_865)
        try lock(target.connection, seed: 7_061_746_865)
        while true {
            let facts = try self.facts()
            switch MoveMachine.next(wish, facts) {
            case .begin: try begin()
            case .copyAnew: try copyAnew()
            case .follow:
                do {
                    try follow()
                } catch is CopyDiverged {
                    continue
                }
            case .change: try change()
            case .clearUp: return try clearUp()
            case .goBack:
                try goBack()
                guard wish == .abort else {
                    throw LogStoreError.misplaced("\"\(namespace)\" was removed from \(source.name) meanwhile.")
                }
                return
            case .done: return
            case .refuse(let reason): throw LogStoreError.misplaced(text(reason))
            }
        }
    }

    private func lock(_ connection: LogConnection, seed: Int64) throws {
        let isMine = try connection.postgres.execute(
            "select pg_try_advisory_lock(hashtextextended($1, $2))", [.text(namespace), .int8(seed)]
        ).bool(0, 0)
        guard isMine else { throw LogStoreError.misplaced("Somebody else is moving \"\(namespace)\" right now.") }
    }

    private func text(_ reason: MoveMachine.Reason) -> String {
        switch reason {
        case .targetLostIt:
            "\"\(namespace)\" has left \(source.name), and \(target.name) has not all that it had said it kept: it went back to a backup. All of it is still in \(source.name): ask for help before anything is removed."
        case .tooLateToAbort:
            "\"\(namespace)\" has left \(source.name) already: run the command without --abort to finish."
        case .unknown: "There is no namespace \"\(namespace)\" in \(source.name)."
        }
    }

    // MARK: Steps

    private func begin() throws {
        guard let record = try source.connection.namespace(named: namespace) else { return }
        try refuseMirrors(record.id)
        guard try target.connection.namespace(named: namespace) == nil else {
            throw LogStoreError.misplaced(
                "\(target.name) has a namespace \"\(namespace)\" of its own, which nobody placed there: remove that one first."
            )
        }
        _ = try home.postgres.execute(
            """
            insert into pathmirror.namespace_move (namespace, source, target, source_id) values ($1, $2, $3, $4)
            """, [.text(namespace), .text(source.name), .text(target.name), .int8(record.id)])
    }

    /// Their tables would stay, and grow old.
    private func refuseMirrors(_ id: Int64) throws {
        let mirrors = try source.connection.postgres.execute(
            "select name from pathmirror.mirror where namespace_id = $1 order by 1", [.int8(id)])
        guard mirrors.rowCount == 0 else {
            throw LogStoreError.misplaced(
                "\"\(namespace)\" has mirrors, such as \"\(try mirrors.string(0, 0))\", whose tables would stay in \(source.name): drop them first ('pathmirror mirror drop'), and apply them again afterwards."
            )
        }
    }

    private func copyAnew() throws {
        guard let record = try record() else { return }
        progress(.copying)
        if let id = record.targetID { _ = try target.connection.removeNamespace(id) }
        let hidden = ".moving/\(namespace)"
        // One whose number the home was never told.
        if let left = try target.connection.namespace(named: hidden) {
            _ = try target.connection.removeNamespace(left.id)
        }
        let id = try target.connection.postgres.execute(
            "insert into pathmirror.namespace (name, created_at) values ($1, '-infinity') returning id", [.text(hidden)]
        ).int64(0, 0)
        _ = try home.postgres.execute(
            "update pathmirror.namespace_move set target_id = $2 where namespace = $1", [.text(namespace), .int8(id)])
        _ = try copy(record.sourceID, id).round()
    }

    /// Rounds until little is left, and then the fence.
    private func follow() throws {
        guard let record = try record(), let id = record.targetID else { return }
        let copy = try copy(record.sourceID, id)
        for number in 1...Self.mostRounds {
            let start = clock()
            let round = try copy.round()
            progress(.followed(entries: round.entries))
            if round.entries < Self.fewEntries || clock() - start < Self.shortMilliseconds { break }
            guard number < Self.mostRounds else {
                throw LogStoreError.misplaced(
                    "Clients write to \"\(namespace)\" faster than it is copied: try again when they write less. Nothing was changed; --abort throws the copy away."
                )
            }
        }
        for attempt in 1... {
            let start = clock()
            do {
                try leave(copy)
                return progress(.left(milliseconds: clock() - start))
            } catch {
                guard attempt < Self.mostAttempts, LogStoreError(error).isLockConflict else { throw error }
                _ = try copy.round()
            }
        }
    }

    private func copy(_ sourceID: Int64, _ targetID: Int64) throws -> NamespaceCopy {
        try NamespaceCopy(source.connection, sourceID, target.connection, targetID) { [progress] rows in
            progress(.copied(rows: rows))
        }
    }

    /// From the lock on, writers wait; once it is committed the source takes no write any more.
    private func leave(_ copy: NamespaceCopy) throws {
        let postgres = source.connection.postgres
        try postgres.executeScript("begin isolation level read committed; set local lock_timeout = '2s'")
        do {
            // Saves of sessions take it shared.
            _ = try postgres.execute("select pg_advisory_xact_lock(706174686, hashint8($1))", [.int8(copy.sourceID)])
            _ = try postgres.execute(
                "select from pathmirror.namespace where id = $1 for update", [.int8(copy.sourceID)])
            // No acknowledgement of a feed's messages is taken from here on.
            _ = try postgres.execute(
                "update pathmirror.feed_progress set worker = null, generation = generation + 1 where namespace_id = $1",
                [.int8(copy.sourceID)])
            _ = try postgres.execute(
                "update pathmirror.feed_owner set worker = null, generation = generation + 1 where namespace_id = $1",
                [.int8(copy.sourceID)])
            try refuseMirrors(copy.sourceID)
            try copy.lastRound(name: target.isHome ? nil : namespace)
            _ = try postgres.execute(
                """
                with gone as (
                    delete from pathmirror.namespace where id = $1
                    returning id, name, stream_key, head, \(LogConnection.headBatch) as batch
                )
                insert into pathmirror.former_namespace (id, name, stream_key, head, last_batch, moved_to)
                select id, name, stream_key, head, batch, $2 from gone
                on conflict (id) do update set name = excluded.name, stream_key = excluded.stream_key,
                    removed_at = excluded.removed_at, head = excluded.head, last_batch = excluded.last_batch,
                    moved_to = excluded.moved_to
                """, [.int8(copy.sourceID), .text(target.name)])
            for table in ["session", "feed_owner"] {
                _ = try postgres.execute(
                    "delete from pathmirror.\(table) where namespace_id = $1", [.int8(copy.sourceID)])
            }
            // Otherwise a gateway could make it anew before the home says where it is.
            if source.isHome { try place(postgres) }
            try postgres.executeScript("commit")
        } catch {
            if postgres.isOpen { try? postgres.executeScript("rollback") }
            throw error
        }
    }

    private func place(_ postgres: PostgresConnection) throws {
        _ = try postgres.execute(
            "select pathmirror.replace_placement($1, $2)",
            [.text(namespace), target.placement.map { .text($0) } ?? .null(.text)])
    }

    /// Has the home say where it lives now.
    private func change() throws {
        guard let record = try record(), let id = record.targetID else { return }
        let postgres = home.postgres
        try postgres.executeScript("begin")
        do {
            try place(postgres)
            if target.isHome {
                _ = try postgres.execute(
                    "update pathmirror.namespace set name = $2 where id = $1", [.int8(id), .text(namespace)])
            }
            _ = try postgres.execute(
                "update pathmirror.namespace_move set has_left = true where namespace = $1", [.text(namespace)])
            try postgres.executeScript("commit")
        } catch {
            if postgres.isOpen { try? postgres.executeScript("rollback") }
            throw error
        }
    }

    private func clearUp() throws {
        guard let record = try record() else { return }
        progress(.clearing)
        try source.connection.clearFormerNamespace(record.sourceID)
        try forget()
        _ = try target.connection.postgres.execute("select pg_notify('\(LogConnection.feedChannel)', '')")
        _ = try target.connection.postgres.execute("select pg_notify('\(LogConnection.mirrorChannel)', '')")
    }

    private func goBack() throws {
        if let id = try record()?.targetID { _ = try target.connection.removeNamespace(id) }
        try forget()
    }

    private func forget() throws {
        _ = try home.postgres.execute(
            "delete from pathmirror.namespace_move where namespace = $1", [.text(namespace)])
    }
}
