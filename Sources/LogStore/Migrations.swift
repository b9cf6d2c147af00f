import Crypto
public import Postgres

/// The migrations of the schema: the SQL files of `migrations/`, embedded in the program. They are applied in order,
/// each in its own transaction and recorded with a checksum. Functions and views have files of their own:
/// `FunctionFiles`.
///
/// A new database gets `migrations/baseline.sql` instead, which has the same result in one step.
public enum Migrations {
    /// One file of `migrations/`.
    public struct Migration: Sendable {
        /// The number at the beginning of the file's name.
        public let version: Int
        /// The file's name without its extension.
        public let name: String
        let sql: [UInt8]

        var checksum: String { Hex.encode(Digest.sha256(sql)) }
    }

    /// All migrations, in order.
    public static var all: [Migration] {
        [
            Migration(version: 1, name: "001_log_and_tree", sql: PackageResources._01_log_and_tree_sql),
            Migration(version: 2, name: "002_mirrors", sql: PackageResources._02_mirrors_sql),
            Migration(version: 3, name: "003_replays_and_sql", sql: PackageResources._03_replays_and_sql_sql),
            Migration(version: 4, name: "004_mirror_errors", sql: PackageResources._04_mirror_errors_sql),
            Migration(version: 5, name: "005_faster_sql_writes", sql: PackageResources._05_faster_sql_writes_sql),
            Migration(version: 6, name: "006_stream_keys", sql: PackageResources._06_stream_keys_sql),
            Migration(version: 7, name: "007_gateway_role", sql: PackageResources._07_gateway_role_sql),
            Migration(version: 8, name: "008_log_changes", sql: PackageResources._08_log_changes_sql),
            Migration(version: 9, name: "009_session_fences", sql: PackageResources._09_session_fences_sql),
            Migration(version: 10, name: "010_histories", sql: PackageResources._10_histories_sql),
            Migration(version: 11, name: "011_shared_log", sql: PackageResources._11_shared_log_sql),
            Migration(version: 12, name: "012_head_row", sql: PackageResources._12_head_row_sql),
            Migration(version: 13, name: "013_function_files", sql: PackageResources._13_function_files_sql),
            Migration(version: 14, name: "014_feeds", sql: PackageResources._14_feeds_sql),
            Migration(version: 15, name: "015_feed_owners", sql: PackageResources._15_feed_owners_sql),
            Migration(version: 16, name: "016_retention", sql: PackageResources._16_retention_sql),
            Migration(version: 17, name: "017_write_names", sql: PackageResources._17_write_names_sql),
            Migration(version: 18, name: "018_placement", sql: PackageResources._18_placement_sql),
            Migration(version: 19, name: "019_moves", sql: PackageResources._19_moves_sql),
            Migration(version: 20, name: "020_mirror_misfits", sql: PackageResources._20_mirror_misfits_sql),
            Migration(version: 21, name: "021_mirror_history", sql: PackageResources._21_mirror_history_sql),
            Migration(version: 22, name: "022_sql_write_loops", sql: PackageResources._22_sql_write_loops_sql),
            Migration(version: 23, name: "023_following", sql: PackageResources._23_following_sql),
            Migration(version: 24, name: "024_mirror_waiting", sql: PackageResources._24_mirror_waiting_sql),
            Migration(version: 25, name: "025_retention_look", sql: PackageResources._25_retention_look_sql),
            Migration(version: 26, name: "026_gateway_identity", sql: PackageResources._26_gateway_identity_sql),
            Migration(version: 27, name: "027_small_feed_errors", sql: PackageResources._27_small_feed_errors_sql),
            Migration(version: 28, name: "028_plain_mirrors", sql: PackageResources._28_plain_mirrors_sql),
            Migration(version: 29, name: "029_follow", sql: PackageResources._29_follow_sql),
            Migration(version: 30, name: "030_service_accounts", sql: PackageResources._30_service_accounts_sql),
        ]
    }

    /// The tables of a new database. Changes with each migration that changes a table; a test compares both ways.
    private static var baseline: String { String(decoding: PackageResources.baseline_sql, as: UTF8.self) }

    /// The schema version of this program.
    public static var newest: Int { all.last?.version ?? 0 }

    /// Whether a migration is applied in the database.
    public struct Status: Sendable {
        public let version: Int
        public let name: String
        /// Seconds since 1970, or nil if the migration has not been applied.
        public let appliedAt: Int64?
    }

    /// Returns the status of each migration of this program.
    public static func status(_ connection: PostgresConnection) throws(LogStoreError) -> [Status] {
        let applied = try applied(connection)
        return all.map { migration in
            Status(version: migration.version, name: migration.name, appliedAt: applied[migration.version]?.at)
        }
    }

    /// The result of `up`.
    public struct Applied: Sendable {
        /// The applied migrations, in order.
        public fileprivate(set) var migrations: [Migration] = []
        /// The names of the applied files of functions and views, in order.
        public fileprivate(set) var functionFiles: [String] = []

        /// Whether nothing had to be applied.
        public var isEmpty: Bool { migrations.isEmpty && functionFiles.isEmpty }
    }

    /// Applies missing migrations and changed files of functions, and returns them. Gateways that start at the same
    /// time wait for each other, so that each migration runs once.
    ///
    /// A database without tables in schema `pathmirror` gets the baseline, and all migrations are recorded.
    ///
    /// - Parameter last: the last migration to apply, for tests of an older schema. If it is not the newest one, no
    ///   file of functions is applied.
    /// - Parameter usesBaseline: false in tests that create a new database with the migrations.
    /// - Parameter functions: the files of functions, for tests with other files than the program's.
    /// - Parameter begins: called before each migration is checked and, if it is missing, applied.
    public static func up(
        _ connection: PostgresConnection, through last: Int = .max, functions: [FunctionFiles.File] = FunctionFiles.all,
        usesBaseline: Bool = true, begins: (String) -> Void = { _ in }
    ) throws(LogStoreError) -> Applied {
        var done = Applied()
        // Runs under a lock because `create schema if not exists` fails if another session creates the schema at the
        // same time.
        try inTransaction(connection) { () throws(LogStoreError) in
            try translated { () throws(PostgresError) in
                try connection.executeScript(
                    """
                    \(SchemaMaking.ownSQL);
                    create table if not exists pathmirror.migration (
                        version integer primary key,
                        name text not null,
                        checksum text not null,
                        applied_at timestamptz not null default now()
                    );
                    """)
            }
            guard usesBaseline, last >= newest, try isNew(connection) else { return }
            begins("baseline")
            try translated { () throws(PostgresError) in try connection.executeScript(baseline) }
            for migration in all { try record(migration, connection) }
            done.functionFiles = try FunctionFiles.apply(functions, connection)
            done.migrations = all
        }
        for migration in all where migration.version <= last {
            // The files run in one transaction with the newest migration, so that the schema never has this version
            // with older functions.
            let files = migration.version == newest ? functions : nil
            try inTransaction(connection) { () throws(LogStoreError) in
                begins(migration.name)
                if try apply(migration, connection) { done.migrations.append(migration) }
                if let files { done.functionFiles += try FunctionFiles.apply(files, connection) }
            }
        }
        if last >= newest { try check(connection, functions: functions) }
        return done
    }

    /// Throws unless the database is exactly at this program's version.
    public static func check(
        _ connection: PostgresConnection, functions: [FunctionFiles.File] = FunctionFiles.all
    ) throws(LogStoreError) {
        let applied = try applied(connection)
        let found = applied.keys.max() ?? 0
        if found > newest { throw .schemaTooNew(found: found, known: newest) }
        if found < newest { throw .schemaMissing(found: found, needed: newest) }
        for migration in all where applied[migration.version]?.checksum != migration.checksum {
            throw .migrationChanged(version: migration.version)
        }
        try FunctionFiles.check(functions, connection)
    }

    /// "pathmirr" as a number: the key of the advisory lock for migrations.
    private static let lock: Int64 = 0x7061_7468_6D69_7272

    /// Runs `body` in a transaction under the migration lock.
    private static func inTransaction(
        _ connection: PostgresConnection, _ body: () throws(LogStoreError) -> Void
    ) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            try connection.executeScript("begin; select pg_advisory_xact_lock(\(lock))")
        }
        do {
            try body()
            try translated { () throws(PostgresError) in try connection.executeScript("commit") }
        } catch {
            try? connection.executeScript("rollback")
            throw error
        }
    }

    /// Applies a migration in the open transaction, unless it was applied before.
    private static func apply(_ migration: Migration, _ connection: PostgresConnection) throws(LogStoreError) -> Bool {
        let applied = try applied(connection)
        if let found = applied.keys.max(), found > newest { throw .schemaTooNew(found: found, known: newest) }
        if let record = applied[migration.version] {
            guard record.checksum == migration.checksum else { throw .migrationChanged(version: migration.version) }
            return false
        }
        try translated { () throws(PostgresError) in
            try connection.executeScript(String(decoding: migration.sql, as: UTF8.self))
        }
        try record(migration, connection)
        return true
    }

    private static func record(_ migration: Migration, _ connection: PostgresConnection) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try connection.execute(
                "insert into pathmirror.migration (version, name, checksum) values ($1, $2, $3)",
                [.int4(Int32(migration.version)), .text(migration.name), .text(migration.checksum)])
        }
    }

    /// Whether the schema contains only the table of migrations, and that is empty. The target of another database's
    /// mirrors has more tables.
    private static func isNew(_ connection: PostgresConnection) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            let rows = try connection.execute(
                """
                select not exists (select from pathmirror.migration) and not exists (
                    select from pg_class
                    where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p', 'v', 'S') and relname <> 'migration')
                """)
            return try rows.bool(0, 0)
        }
    }

    private static func applied(
        _ connection: PostgresConnection
    ) throws(LogStoreError) -> [Int: (checksum: String, at: Int64)] {
        try translated { () throws(PostgresError) in
            let exists = try connection.execute("select to_regclass('pathmirror.migration') is not null")
            guard try exists.bool(0, 0) else { return [:] }
            let rows = try connection.execute(
                "select version, checksum, extract(epoch from applied_at)::bigint from pathmirror.migration")
            var found: [Int: (checksum: String, at: Int64)] = [:]
            for row in 0..<rows.rowCount {
                found[Int(try rows.int32(row, 0))] = (try rows.string(row, 1), try rows.int64(row, 2))
            }
            return found
        }
    }
}

/// Access to the schema's migrations and files of functions over this connection. See `Migrations`.
extension LogConnection {
    /// Throws unless the database's schema is this program's.
    public func checkSchema() throws(LogStoreError) { try Migrations.check(postgres) }

    /// Applies missing migrations and changed files, and returns them.
    ///
    /// - Parameter begins: called before each migration is checked and, if it is missing, applied.
    public func migrate(begins: (String) -> Void = { _ in }) throws(LogStoreError) -> Migrations.Applied {
        try Migrations.up(postgres, begins: begins)
    }

    /// Returns all migrations and files of functions with the time when each was applied.
    public func migrationStatus() throws(LogStoreError) -> (
        migrations: [Migrations.Status], functions: [FunctionFiles.Status]
    ) {
        (try Migrations.status(postgres), try FunctionFiles.status(postgres))
    }
}
