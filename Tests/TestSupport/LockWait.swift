public import Postgres

/// Waits until exactly one session of a database waits for a lock. Returns false after a timeout that suffices for a
/// busy machine. Uses its own connection: within a transaction the view of other sessions does not change after the
/// first query.
public func oneWaitsForALock(_ url: PostgresURL) throws -> Bool {
    let watcher = try PostgresConnection(url)
    defer { watcher.close() }
    return try eventually(seconds: 120) {
        try watcher.execute(
            "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        ).rowCount == 1
    }
}
