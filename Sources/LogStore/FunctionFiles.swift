import Crypto
public import Postgres

/// The functions and views of schema `pathmirror`: the SQL files of `migrations/functions`, embedded in the program.
/// Each file holds the newest text of its objects (`create or replace …`) and is applied again when the text has
/// changed.
///
/// A change of a file comes with a migration, because it belongs to a version of the schema like any other change. An
/// older program then refuses the database instead of restoring its own text.
public enum FunctionFiles {
    /// One file.
    public struct File: Sendable {
        /// The file's name without folder and extension, as used in the database's table and in messages.
        public let name: String
        let sql: [UInt8]

        /// Creates a file from a name and an SQL text.
        public init(name: String, sql: [UInt8]) {
            self.name = name
            self.sql = sql
        }

        /// The checksum that the database's table stores for an applied text.
        public var checksum: String { Hex.encode(Digest.sha256(sql)) }
    }

    /// The files in the order of application: functions and views come after those that PostgreSQL looks up while it
    /// creates them. The last file sets the privileges, and is applied whenever another file was.
    public static var all: [File] {
        [
            File(name: "paths", sql: PackageResources.paths_sql),
            File(name: "values", sql: PackageResources.values_sql),
            File(name: "head", sql: PackageResources.head_sql),
            File(name: "partitions", sql: PackageResources.partitions_sql),
            File(name: "tree", sql: PackageResources.tree_sql),
            File(name: "changes", sql: PackageResources.changes_sql),
            File(name: "entries", sql: PackageResources.entries_sql),
            File(name: "sessions", sql: PackageResources.sessions_sql),
            File(name: "named_writes", sql: PackageResources.named_writes_sql),
            File(name: "reading", sql: PackageResources.reading_sql),
            File(name: "writing", sql: PackageResources.writing_sql),
            File(name: "wait_for", sql: PackageResources.wait_for_sql),
            File(name: "log_entry", sql: PackageResources.log_entry_sql),
            File(name: "log_change", sql: PackageResources.log_change_sql),
            File(name: "feeds", sql: PackageResources.feeds_sql),
            File(name: "feed_status", sql: PackageResources.feed_status_sql),
            File(name: "log_cursor", sql: PackageResources.log_cursor_sql),
            File(name: "mirror_status", sql: PackageResources.mirror_status_sql),
            File(name: "mirror_misfit", sql: PackageResources.mirror_misfit_sql),
            File(name: "retention", sql: PackageResources.retention_sql),
            File(name: "placement", sql: PackageResources.placement_sql),
            File(name: "following", sql: PackageResources.following_sql),
            File(name: "follow", sql: PackageResources.follow_sql),
            File(name: "seq_at", sql: PackageResources.seq_at_sql),
            File(name: "privileges", sql: PackageResources.privileges_sql),
        ]
    }

    /// Whether a file is applied in the database.
    public struct Status: Sendable {
        public let name: String
        /// Seconds since 1970, or nil if the current text has not been applied.
        public let appliedAt: Int64?
    }

    /// Returns the status of each file of this program.
    public static func status(_ connection: PostgresConnection) throws(LogStoreError) -> [Status] {
        let applied = try applied(connection)
        return all.map { file in
            let record = applied[file.name]
            return Status(name: file.name, appliedAt: record?.checksum == file.checksum ? record?.at : nil)
        }
    }

    /// Applies the files whose text differs from the database's, in the open transaction, and returns their names.
    static func apply(_ files: [File], _ connection: PostgresConnection) throws(LogStoreError) -> [String] {
        let applied = try applied(connection)
        var changed = files.filter { applied[$0.name]?.checksum != $0.checksum }
        let isUnknown = Set(applied.keys).subtracting(files.map(\.name))
        guard !changed.isEmpty || !isUnknown.isEmpty else { return [] }
        // Functions that another file creates are executable by `PUBLIC` until the last file sets the privileges.
        if let last = files.last, changed.last?.name != last.name { changed.append(last) }
        try translated { () throws(PostgresError) in
            for file in changed {
                try connection.executeScript(String(decoding: file.sql, as: UTF8.self))
                _ = try connection.execute(
                    """
                    insert into pathmirror.function_file (name, checksum) values ($1, $2)
                    on conflict (name) do update set checksum = excluded.checksum, applied_at = now()
                    """, [.text(file.name), .text(file.checksum)])
            }
            for name in isUnknown.sorted() {
                _ = try connection.execute("delete from pathmirror.function_file where name = $1", [.text(name)])
            }
        }
        return changed.map(\.name)
    }

    /// Throws unless the database has exactly these files with these texts.
    static func check(_ files: [File], _ connection: PostgresConnection) throws(LogStoreError) {
        let applied = try applied(connection)
        for file in files where applied[file.name]?.checksum != file.checksum {
            throw .functionsChanged(file: file.name)
        }
        if let other = Set(applied.keys).subtracting(files.map(\.name)).min() { throw .functionsChanged(file: other) }
    }

    private static func applied(
        _ connection: PostgresConnection
    ) throws(LogStoreError) -> [String: (checksum: String, at: Int64)] {
        try translated { () throws(PostgresError) in
            let exists = try connection.execute("select to_regclass('pathmirror.function_file') is not null")
            guard try exists.bool(0, 0) else { return [:] }
            let rows = try connection.execute(
                "select name, checksum, extract(epoch from applied_at)::bigint from pathmirror.function_file")
            var found: [String: (checksum: String, at: Int64)] = [:]
            for row in 0..<rows.rowCount {
                found[try rows.string(row, 0)] = (try rows.string(row, 1), try rows.int64(row, 2))
            }
            return found
        }
    }
}
