public import Postgres

/// Waits until one session of a database, and no more, waits for a lock; false where none came to that in as long as a busy machine
/// takes. Looks by a connection of its own: within a transaction what others do is seen as it was at the first look.
public func oneWaitsForALock(_ url: PostgresURL) throws -> Bool {
    let watcher = try PostgresConnection(url)
    defer { watcher.close() }
    return try eventually(seconds: 120) {
        try watcher.execute(
            "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        ).rowCount == 1
    }
}
