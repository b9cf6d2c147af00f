import LogStore
import Postgres
import TestSupport
import Testing

/// Makes namespaces created from now on share tables up to this seq only, instead of 65,536, so that partitions are
/// needed early. Requires an empty log.
func shareLog(upTo seq: Int64, _ url: PostgresURL) throws {
    let connection = try PostgresConnection(url)
    defer { connection.close() }
    try connection.executeScript(
        """
        alter table pathmirror.log_tiered detach partition pathmirror.log_begin;
        alter table pathmirror.log_tiered detach partition pathmirror.log_rest;
        alter table pathmirror.log_tiered attach partition pathmirror.log_begin for values from (minvalue) to (\(seq));
        alter table pathmirror.log_tiered attach partition pathmirror.log_rest for values from (\(seq)) to (maxvalue);
        alter table pathmirror.namespace alter column shared_to set default \(seq), alter column partitioned_to set default \(seq);
        """)
}

/// Returns the names of the partitions that belong to single namespaces.
func ownPartitions(_ connection: LogConnection) throws -> [String] {
    let rows = try connection.sql.execute(
        """
        select relname from pg_class where relnamespace = 'pathmirror'::regnamespace and relkind = 'r' and relispartition
            and relname ~ '^log_[0-9]+_[0-9]+$'
        order by split_part(relname, '_', 2)::bigint, split_part(relname, '_', 3)::bigint
        """)
    return try (0..<rows.rowCount).map { try rows.string($0, 0) }
}

/// Runs `body` with a session on a new database whose namespaces share tables up to this seq only.
func withSession<Value>(
    sharingUpTo seq: Int64, _ change: (inout LogConnection.Settings) -> Void, _ body: (LogConnection) throws -> Value
) throws -> Value {
    var settings = LogConnection.Settings()
    change(&settings)
    return try withDatabase { url in
        try shareLog(upTo: seq, url)
        let connection = try LogConnection(url, settings: settings)
        defer { connection.close() }
        return try body(connection)
    }
}
