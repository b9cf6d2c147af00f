import Postgres

/// What a mover finds.
extension NamespaceMover {
    /// What the home says of the move.
    struct Record {
        let sourceID: Int64
        let targetID: Int64?
        let hasLeft: Bool
    }

    func record() throws -> Record? {
        let rows = try home.postgres.execute(
            "select source_id, target_id, has_left from pathmirror.namespace_move where namespace = $1",
            [.text(namespace)])
        guard rows.rowCount == 1 else { return nil }
        return Record(
            sourceID: try rows.int64(0, 0), targetID: rows.isNull(0, 1) ? nil : try rows.int64(0, 1),
            hasLeft: try rows.bool(0, 2))
    }

    func facts() throws -> MoveFacts {
        guard let record = try record() else {
            let isThere = try source.connection.namespace(named: namespace) != nil
            return MoveFacts(record: nil, source: isThere ? .living : .unknown, copy: .none)
        }
        return MoveFacts(
            record: record.hasLeft ? .left : .copying, source: try sourceFact(record.sourceID),
            copy: try copyFact(record))
    }

    private func sourceFact(_ id: Int64) throws -> MoveFacts.Source {
        let postgres = source.connection.postgres
        let living = try postgres.execute("select from pathmirror.namespace where id = $1", [.int8(id)])
        if living.rowCount > 0 { return .living }
        let former = try postgres.execute(
            "select from pathmirror.former_namespace where id = $1 and moved_to is not null", [.int8(id)])
        return former.rowCount > 0 ? .former : .unknown
    }

    private func copyFact(_ record: Record) throws -> MoveFacts.Copy {
        guard let id = record.targetID else { return .none }
        let rows = try target.connection.postgres.execute(
            "select head, \(LogConnection.headBatch) from pathmirror.namespace where id = $1 and created_at > '-infinity'",
            [.int8(id)])
        guard rows.rowCount > 0 else { return .none }
        let isOfTheSource = try NamespaceCopy.has(
            source.connection.postgres, record.sourceID, try rows.int64(0, 0),
            rows.isNull(0, 1) ? nil : try rows.bytes(0, 1))
        return .there(isOfTheSource: isOfTheSource, isWhole: try isWhole(record.sourceID, id))
    }

    /// Whether the target has the entry with which the source ended. What came behind it was written there.
    private func isWhole(_ sourceID: Int64, _ targetID: Int64) throws -> Bool {
        let last = try source.connection.postgres.execute(
            """
            select head, last_batch, stream_key::text from pathmirror.former_namespace
            where id = $1 and moved_to is not null
            """, [.int8(sourceID)])
        guard last.rowCount > 0 else { return false }
        let batch: PostgresValue = last.isNull(0, 1) ? .null(.uuid) : .uuid(try last.bytes(0, 1))
        // Of an empty log there is no entry; and the target may have shortened its log since.
        return try target.connection.postgres.execute(
            """
            select exists (
                    select from pathmirror.log where namespace_id = $1 and seq = $2 and ($3 is null or batch_id = $3))
                or exists (
                    select from pathmirror.namespace
                    where id = $1 and stream_key = $4::text::uuid and (
                        $2 = 0 or retained_from > $2 and head >= $2 and (
                            head > $2 or \(LogConnection.headBatch) is not distinct from $3)))
            """, [.int8(targetID), .int8(try last.int64(0, 0)), batch, .text(try last.string(0, 2))]
        ).bool(0, 0)
    }
}
