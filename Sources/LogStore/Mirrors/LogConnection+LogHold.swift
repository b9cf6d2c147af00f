import Postgres

/// A build that begins with an old entry keeps the log from there on: until its mirror has a cursor, nothing else does.
extension LogConnection {
    /// What `log_cursor` calls such builds.
    private static let kind = "mirror build"

    /// Keeps all of the log that a namespace has now, for a mirror that is being made of it. A build that was killed leaves this
    /// behind, until the mirror is built again or dropped.
    public func holdLog(_ namespace: Int64, for mirror: String) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            // The row lock waits for who is shortening the log, and lets nobody begin with it until this is committed.
            _ = try postgres.execute(
                """
                insert into pathmirror.cursor (namespace_id, kind, name, seq)
                select id, $2, $3, retained_from - 1 from pathmirror.namespace where id = $1 for share
                on conflict (namespace_id, kind, name) do update set seq = excluded.seq, moved_at = now()
                """, [.int8(namespace), .text(Self.kind), .text(mirror)])
        }
    }

    /// Ends that.
    ///
    /// - Parameter seq: where the mirror's cursor is now, for mirrors whose table is in another database; nil where the build came
    ///   to nothing.
    public func releaseLog(
        _ namespace: Int64, for mirror: String, _ id: [UInt8], at seq: Int64?
    ) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            var steps: [PipelineStep] = []
            if let seq {
                steps.append(
                    .query(
                        "update pathmirror.mirror_run set seq = $3 where namespace_id = $1 and mirror = $2 and seq is not null",
                        [.int8(namespace), .uuid(id), .int8(seq)]))
            }
            steps.append(
                .query(
                    "delete from pathmirror.cursor where namespace_id = $1 and kind = $2 and name = $3",
                    [.int8(namespace), .text(Self.kind), .text(mirror)]))
            _ = try postgres.pipeline(steps)
        }
    }

    /// What ends it for a mirror that is still in the catalog.
    static func releaseStep(_ namespace: Int64, of mirror: [UInt8]) -> PipelineStep {
        .query(
            """
            delete from pathmirror.cursor where namespace_id = $1 and kind = $2
                and name = (select name from pathmirror.mirror where namespace_id = $1 and id = $3)
            """, [.int8(namespace), .text(kind), .uuid(mirror)])
    }
}
