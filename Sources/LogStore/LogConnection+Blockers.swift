import Postgres

/// A session of the database that blocks other sessions.
public struct Blocker: Sendable, Equatable {
    public let pid: Int32
    /// The start of the session, as text. Together with the process id it identifies one session, even if process ids
    /// are reused.
    public let startedAt: String
    /// The address and port of the client, or empty for a client that uses a Unix socket.
    public let client: String
    /// The application name of the session.
    public let application: String
    /// Whether the session waits for its client to send something.
    public let waitsForClient: Bool
    /// Whether the session itself waits for a lock.
    public let waitsForLock: Bool
    /// Changes whenever the session does anything: begins or ends a statement, or receives data of a COPY.
    public let activity: String

    public init(
        pid: Int32, startedAt: String, client: String = "", application: String, waitsForClient: Bool,
        waitsForLock: Bool, activity: String
    ) {
        self.pid = pid
        self.startedAt = startedAt
        self.client = client
        self.application = application
        self.waitsForClient = waitsForClient
        self.waitsForLock = waitsForLock
        self.activity = activity
    }
}

extension LogConnection {
    private static let blockersStatement = PostgresStatement(
        "blockers",
        """
        with recursive waits (pid) as (
            select unnest($1::int8[])::int4
            union
            select unnest(pg_blocking_pids(waits.pid)) from waits
        )
        select activity.pid::int8, activity.backend_start::text,
            coalesce(host(activity.client_addr) || ' ' || activity.client_port, ''), activity.application_name,
            coalesce(activity.wait_event = 'ClientRead', false), coalesce(activity.wait_event_type = 'Lock', false),
            concat_ws(' ', activity.query_start, activity.state, activity.state_change, copy.bytes_processed)
        from waits
        join pg_stat_activity as activity on activity.pid = waits.pid
        left join pg_stat_progress_copy as copy on copy.pid = activity.pid
        where not waits.pid = any ($1::int8[]) and activity.usename = current_user
        """, types: [.int8Array])

    /// Returns the sessions of the current role for which the backends wait, directly or through other waiting
    /// sessions.
    public func blockers(of pids: [Int32]) throws(LogStoreError) -> [Blocker] {
        var waiting = PostgresArray(of: .int8)
        for pid in pids { waiting.appendInt8(Int64(pid)) }
        return try translated { () throws(PostgresError) in
            let rows = try postgres.executePrepared(Self.blockersStatement, [.array(waiting)])
            var found: [Blocker] = []
            for row in 0..<rows.rowCount {
                found.append(
                    Blocker(
                        pid: Int32(truncatingIfNeeded: try rows.int64(row, 0)), startedAt: try rows.string(row, 1),
                        client: try rows.string(row, 2), application: try rows.string(row, 3),
                        waitsForClient: try rows.bool(row, 4), waitsForLock: try rows.bool(row, 5),
                        activity: try rows.string(row, 6)))
            }
            return found
        }
    }

    /// Cancels the statement of a session (its transaction fails), or ends the session. Does nothing if the session is
    /// gone.
    public func stop(_ blocker: Blocker, endingSession: Bool) throws(LogStoreError) {
        let function = endingSession ? "pg_terminate_backend" : "pg_cancel_backend"
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                """
                select \(function)(pid) from pg_stat_activity
                where pid = $1::int8::int4 and backend_start::text = $2 and usename = current_user
                """, [.int8(Int64(blocker.pid)), .text(blocker.startedAt)])
        }
    }
}
