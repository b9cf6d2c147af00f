/// The schema's migrations and files of functions, over this connection; `Migrations` says what they are.
extension LogConnection {
    /// Throws unless the database's schema is this program's.
    public func checkSchema() throws(LogStoreError) { try Migrations.check(postgres) }

    /// Applies the migrations that are missing and the files that have changed, and says which those were.
    ///
    /// - Parameter begins: is told of each migration before it is applied.
    public func migrate(begins: (String) -> Void = { _ in }) throws(LogStoreError) -> Migrations.Applied {
        try Migrations.up(postgres, begins: begins)
    }

    /// All migrations and files of functions, and when each was applied.
    public func migrationStatus() throws(LogStoreError) -> (
        migrations: [Migrations.Status], functions: [FunctionFiles.Status]
    ) {
        (try Migrations.status(postgres), try FunctionFiles.status(postgres))
    }
}
