import Postgres

/// The state of a mirror, as reported by the gateway that runs it.
public struct MirrorRun: Sendable {
    public let namespace: Int64
    public let mirror: [UInt8]
    /// The reason why the mirror is broken, or nil while it runs.
    public let trouble: String?
    public let seq: Int64
    /// The numbers of errors that are stored and of errors that were found and not stored. Nil if the table is in this
    /// database, which counts them itself.
    public let errors: Int64?
    public let unkeptErrors: Int64?
    /// The time until the next attempt to run a broken mirror.
    public let retryMilliseconds: Int64?

    /// Creates a report of one mirror.
    public init(
        namespace: Int64, mirror: [UInt8], trouble: String?, seq: Int64, errors: Int64?, unkeptErrors: Int64?,
        retryMilliseconds: Int64?
    ) {
        self.namespace = namespace
        self.mirror = mirror
        self.trouble = trouble
        self.seq = seq
        self.errors = errors
        self.unkeptErrors = unkeptErrors
        self.retryMilliseconds = retryMilliseconds
    }
}

/// A mirror's row in `pathmirror.mirror_status`.
public struct MirrorStatus: Sendable {
    public let namespace: String
    public let name: String
    public let table: String
    public let isElsewhere: Bool
    public let state: String
    public let seq: Int64?
    public let head: Int64
    public let lagEntries: Int64?
    public let lagMilliseconds: Int64?
    public let errors: Int64
    /// The number of errors that were found since the table was created and not stored, because there were too many.
    public let unkeptErrors: Int64
    public let message: String?
    public let gateway: String?
}

/// The states of mirrors: reports of gateways, and the view for operators.
extension LogConnection {
    /// Stores the states of the mirrors that the gateway runs.
    public func reportMirrors(_ runs: [MirrorRun], gateway: String) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.pipeline(
                runs.map { run in
                    .query(
                        """
                        insert into pathmirror.mirror_run
                            (namespace_id, mirror, state, message, gateway, reported_at, seq, error_count, retry_at, unkept_errors)
                        select $1, $2, $3, $4, $5, now(), $6, $7, now() + $8 * interval '1 millisecond', $9
                        -- It may have been dropped.
                        where exists (select from pathmirror.mirror where namespace_id = $1 and id = $2)
                        on conflict (namespace_id, mirror) do update set state = excluded.state, message = excluded.message,
                            gateway = excluded.gateway, reported_at = excluded.reported_at, seq = excluded.seq,
                            error_count = excluded.error_count, retry_at = excluded.retry_at,
                            unkept_errors = excluded.unkept_errors
                        """,
                        [
                            .int8(run.namespace), .uuid(run.mirror), .text(run.trouble == nil ? "running" : "broken"),
                            run.trouble.map { .text($0) } ?? .null(.text), .text(gateway), .int8(run.seq),
                            run.errors.map { .int8($0) } ?? .null(.int8),
                            run.retryMilliseconds.map { .float8(Double($0)) } ?? .null(.float8),
                            run.unkeptErrors.map { .int8($0) } ?? .null(.int8),
                        ])
                })
        }
    }

    /// Stores that this gateway can't reach a mirror's database. Does not overwrite a recent report of another gateway
    /// that runs the mirror.
    public func reportMirrorOutOfReach(
        _ namespace: Int64, _ mirror: [UInt8], message: String, gateway: String, retryMilliseconds: Int64
    ) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                """
                insert into pathmirror.mirror_run (namespace_id, mirror, state, message, gateway, reported_at, retry_at)
                select $1, $2, 'broken', $3, $4, now(), now() + $5 * interval '1 millisecond'
                where exists (select from pathmirror.mirror where namespace_id = $1 and id = $2)
                on conflict (namespace_id, mirror) do update set state = excluded.state, message = excluded.message,
                    gateway = excluded.gateway, reported_at = excluded.reported_at, retry_at = excluded.retry_at
                where mirror_run.gateway = excluded.gateway or mirror_run.state = 'broken'
                    or mirror_run.reported_at < now() - interval '30 seconds'
                """,
                [
                    .int8(namespace), .uuid(mirror), .text(message), .text(gateway),
                    .float8(Double(retryMilliseconds)),
                ])
        }
    }

    /// Returns the states of all mirrors, ordered by namespace and name.
    public func mirrorStatuses() throws(LogStoreError) -> [MirrorStatus] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select namespace, name, table_name, is_elsewhere, state, seq, head, lag_entries,
                    (extract(epoch from lag) * 1000)::bigint, errors, message, gateway, unkept_errors
                from pathmirror.mirror_status order by namespace, name
                """)
            var statuses: [MirrorStatus] = []
            for row in 0..<rows.rowCount { statuses.append(try Self.status(rows, row)) }
            return statuses
        }
    }

    private static func status(_ rows: PostgresResult, _ row: Int) throws(PostgresError) -> MirrorStatus {
        let integer = { (column: Int) throws(PostgresError) in
            rows.isNull(row, column) ? nil : try rows.int64(row, column)
        }
        let text = { (column: Int) throws(PostgresError) in
            rows.isNull(row, column) ? nil : try rows.string(row, column)
        }
        return MirrorStatus(
            namespace: try rows.string(row, 0), name: try rows.string(row, 1), table: try rows.string(row, 2),
            isElsewhere: try rows.bool(row, 3), state: try rows.string(row, 4), seq: try integer(5),
            head: try rows.int64(row, 6), lagEntries: try integer(7), lagMilliseconds: try integer(8),
            errors: try rows.int64(row, 9), unkeptErrors: try rows.int64(row, 12), message: try text(10),
            gateway: try text(11))
    }
}

/// A build that starts from an old entry holds the log from there on, because its mirror has no cursor yet.
extension LogConnection {
    /// The kind of such builds in `log_cursor`.
    private static let kind = "mirror build"

    /// Holds the whole current log of a namespace for a mirror that is being built. A build that was killed leaves the
    /// hold in place until the mirror is built again or dropped.
    public func holdLog(_ namespace: Int64, for mirror: String) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            // The row lock waits for a transaction that is shortening the log, and blocks others until this statement
            // has committed.
            _ = try postgres.execute(
                """
                insert into pathmirror.cursor (namespace_id, kind, name, seq)
                select id, $2, $3, retained_from - 1 from pathmirror.namespace where id = $1 for share
                on conflict (namespace_id, kind, name) do update set seq = excluded.seq, moved_at = now()
                """, [.int8(namespace), .text(Self.kind), .text(mirror)])
        }
    }

    /// Releases the log held by `holdLog`.
    ///
    /// - Parameter seq: the position of the mirror's cursor, for mirrors whose table is in another database. Nil if the
    ///   build failed.
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

    /// Returns the step that releases the log for a mirror that is still in the catalog.
    static func releaseStep(_ namespace: Int64, of mirror: [UInt8]) -> PipelineStep {
        .query(
            """
            delete from pathmirror.cursor where namespace_id = $1 and kind = $2
                and name = (select name from pathmirror.mirror where namespace_id = $1 and id = $3)
            """, [.int8(namespace), .text(kind), .uuid(mirror)])
    }
}
