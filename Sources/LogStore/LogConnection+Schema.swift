/// The schema's migrations, over this connection; `Migrations` says what they are.
extension LogConnection {
    /// Throws unless the database's schema is this program's.
    public func checkSchema() throws(LogStoreError) { try Migrations.check(postgres) }

    /// Applies the migrations that are missing, and returns them.
    public func migrate() throws(LogStoreError) -> [Migrations.Migration] { try Migrations.up(postgres) }

    /// All migrations, and when each was applied.
    public func migrationStatus() throws(LogStoreError) -> [Migrations.Status] { try Migrations.status(postgres) }
}
