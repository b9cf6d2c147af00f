import Postgres

/// The queries for the facts of a move.
extension NamespaceMover {
    /// The record of the move in the primary database.
    struct Record {
        let id: String
        let sourceID: Int64
        let streamKey: String
        let hasLeft: Bool
    }

    /// An orphaned copy: a dormant copy of the namespace in the target, of a move that the primary database does not
    /// know.
    struct Stranger {
        let move: String
        let source: String
        let sourceID: Int64
        let streamKey: String
        let madeAt: String
    }

    /// Returns the record of the move, or nil if there is none.
    ///
    /// - Throws: `misplaced` if the record names other databases than this mover's, which were determined before the
    ///   mover took its lock.
    func record() throws -> Record? {
        try Self.record(of: namespace, from: source.name, to: target.name, primary)
    }

    /// - Parameters:
    ///   - source, target: the names of the databases.
    static func record(
        of namespace: String, from source: String, to target: String, _ primary: LogConnection
    ) throws -> Record? {
        let rows = try primary.postgres.execute(
            """
            select id::text, source_id, stream_key::text, has_left::text, source, target
            from pathmirror.namespace_move where namespace = $1
            """, [.text(namespace)])
        guard rows.rowCount == 1 else { return nil }
        let (from, to) = (try rows.string(0, 4), try rows.string(0, 5))
        guard from == source, to == target else {
            throw LogStoreError.misplaced(
                "\"\(namespace)\" is being moved from \(from) to \(to): finish that move first, or cancel it with --abort."
            )
        }
        return Record(
            id: try rows.string(0, 0), sourceID: try rows.int64(0, 1), streamKey: try rows.string(0, 2),
            hasLeft: try rows.string(0, 3) == "true")
    }

    func facts() throws -> MoveFacts {
        if let record = try record() {
            let copy = try copyFact(record)
            return MoveFacts(
                record: record.hasLeft ? .left : .copying,
                source: try Self.sourceFact(record, of: namespace, source.connection), copy: copy.fact,
                isNameTaken: try isNameTaken(but: copy.id), isLogShortened: try isLogShortened(record))
        }
        let database = try primary.database(of: namespace)?.name ?? DatabaseRecord.primary
        guard database == source.name else {
            throw LogStoreError.misplaced(
                "\"\(namespace)\" is now in \(database), not in \(source.name): run the command again.")
        }
        let living = try source.connection.namespace(named: namespace)
        let stranger = try stranger().map {
            MoveFacts.Copy.stranger(
                isOfThisSource: $0.source == source.name && $0.sourceID == living?.id
                    && $0.streamKey == living?.streamKey)
        }
        return MoveFacts(
            record: nil, source: living == nil ? .unknown : .living, copy: stranger ?? .none,
            isNameTaken: try isNameTaken(but: nil))
    }

    static func sourceFact(
        _ record: Record, of namespace: String, _ source: LogConnection
    ) throws -> MoveFacts.Source {
        let found = try source.postgres.execute(
            """
            select case
                when exists (
                    select from pathmirror.namespace where id = $1 and name = $2 and stream_key = $3::text::uuid
                ) then 'living'
                when exists (select from pathmirror.namespace where id = $1) then 'unknown'
                else coalesce((
                    select case when moved_to is null then 'removed' when move = $4::text::uuid then 'former' end
                    from pathmirror.former_namespace where id = $1 and stream_key = $3::text::uuid
                ), 'unknown')
            end
            """, [.int8(record.sourceID), .text(namespace), .text(record.streamKey), .text(record.id)]
        ).string(0, 0)
        return switch found {
        case "living": .living
        case "former": .former
        case "removed": .removed
        default: .unknown
        }
    }

    private func copyFact(_ record: Record) throws -> (fact: MoveFacts.Copy, id: Int64?) {
        if let id = try copyID(record, isDormant: true) {
            let head = try target.connection.postgres.execute(
                """
                select head, \(LogConnection.headBatch), (created_at = '-infinity')::text
                from pathmirror.namespace where id = $1
                """, [.int8(id)])
            guard head.rowCount == 1 else { return (.none, nil) }
            let isNew = try head.string(0, 2) == "true"
            let isOfTheSource =
                try isNew
                || NamespaceCopy.has(
                    source.connection.postgres, record.sourceID,
                    LogPosition(seq: try head.int64(0, 0), batch: head.isNull(0, 1) ? nil : try head.bytes(0, 1)))
            return (.dormant(isOfTheSource: isOfTheSource, isWhole: try !isNew && isWhole(record, id)), nil)
        }
        if let id = try copyID(record, isDormant: false) { return (.arrived(isWhole: try isWhole(record, id)), id) }
        return (try stranger() == nil ? .none : .stranger(isOfThisSource: false), nil)
    }

    /// Whether the source's log begins after the entry that follows a dormant copy's head.
    private func isLogShortened(_ record: Record) throws -> Bool {
        guard let id = try copyID(record, isDormant: true) else { return false }
        let head = try target.connection.postgres.execute(
            "select head from pathmirror.namespace where id = $1", [.int8(id)])
        guard head.rowCount == 1 else { return false }
        return try source.connection.postgres.execute(
            "select exists (select from pathmirror.namespace where id = $1 and retained_from > $2 + 1)",
            [.int8(record.sourceID), .int8(try head.int64(0, 0))]
        ).bool(0, 0)
    }

    /// Returns the id of the move's copy in the target, identified by the move and the stream key. The id alone may
    /// belong to another namespace after a restore from a backup.
    func copyID(_ record: Record, isDormant: Bool) throws -> Int64? {
        let rows = try target.connection.postgres.execute(
            """
            select known.id from pathmirror.namespace_copy as copy
            join pathmirror.namespace as known on known.id = copy.namespace_id
            where copy.move = $1::text::uuid and copy.stream_key = $2::text::uuid and copy.namespace = $3
                and copy.is_dormant = $4 and known.name = $5
            order by known.id limit 1
            """,
            [
                .text(record.id), .text(record.streamKey), .text(namespace), .bool(isDormant),
                .text(isDormant ? NamespaceCopy.hiddenName(namespace) : namespace),
            ])
        return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
    }

    /// Returns the dormant copy of the namespace, of any move.
    func stranger() throws -> Stranger? {
        let rows = try target.connection.postgres.execute(
            """
            select copy.move::text, copy.source, copy.source_id, copy.stream_key::text, copy.made_at::text
            from pathmirror.namespace_copy as copy join pathmirror.namespace as known on known.id = copy.namespace_id
            where known.name = $1 and copy.namespace = $2 and copy.is_dormant
            """, [.text(NamespaceCopy.hiddenName(namespace)), .text(namespace)])
        guard rows.rowCount == 1 else { return nil }
        return Stranger(
            move: try rows.string(0, 0), source: try rows.string(0, 1), sourceID: try rows.int64(0, 2),
            streamKey: try rows.string(0, 3), madeAt: try rows.string(0, 4))
    }

    private func isNameTaken(but arrived: Int64?) throws -> Bool {
        guard let living = try target.connection.namespace(named: namespace) else { return false }
        return living.id != arrived
    }

    /// Whether the copy has the hand-over token with which the namespace left the source. Later entries of the copy
    /// were written in the target.
    private func isWhole(_ record: Record, _ targetID: Int64) throws -> Bool {
        let last = try source.connection.postgres.execute(
            """
            select farewell::text from pathmirror.former_namespace
            where id = $1 and stream_key = $2::text::uuid and move = $3::text::uuid and farewell is not null
            """, [.int8(record.sourceID), .text(record.streamKey), .text(record.id)])
        guard last.rowCount > 0 else { return false }
        return try target.connection.postgres.execute(
            """
            select exists (
                select from pathmirror.namespace_copy as copy
                join pathmirror.namespace as known on known.id = copy.namespace_id
                where known.id = $1 and known.stream_key = $2::text::uuid and copy.farewell = $3::text::uuid)
            """, [.int8(targetID), .text(record.streamKey), .text(try last.string(0, 0))]
        ).bool(0, 0)
    }
}
