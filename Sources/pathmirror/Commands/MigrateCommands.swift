import LogStore
import Postgres
import Runtime

struct MigrateUpCommand: Command {
    static let specification = CommandSpecification(
        "migrate up",
        "migrates the schema of the primary database, and of the added databases, to this program's version",
        options: DatabaseOptions.primary + [.json])

    static let whenInterrupted =
        "Completed migrations remain, and the one in progress was rolled back. The same command resumes."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let primary = try DatabaseLocator.primary(arguments)
        let connection = try LogConnection(primary.withApplicationName("pathmirror migrate"))
        defer { connection.close() }
        console.interruption.stops(connection.cancelHandle)
        let done = try migrate(connection, DatabaseRecord.primary, arguments, console)
        // The primary database comes first, because gateways read the list of all others there.
        var failures: [String] = []
        for record in try connection.databases() {
            do {
                let isChanged = try migrate(record, primary, arguments, console)
                if isChanged, !arguments.has("json") { console.write("\(record.name): migrated") }
            } catch {
                try console.interruption.check()
                guard LogStoreError(error).isUnreachable else {
                    failures.append("\(record.name) (\(error))")
                    continue
                }
                // Gateways migrate this database once they reach it.
                console.error(
                    "pathmirror: warning: \(record.name) can't be reached, and was not migrated: \(error). Run this command again, or let a gateway that reaches it migrate it."
                )
            }
        }
        if arguments.has("json") {
            let names = done.migrations.map { "\"\($0.name)\"" }.joined(separator: ",")
            let files = done.functionFiles.map { "\"\($0)\"" }.joined(separator: ",")
            console.write("{\"applied\":[\(names)],\"functions\":[\(files)],\"version\":\(Migrations.newest)}")
        } else {
            for migration in done.migrations { console.write("applied \(migration.name)") }
            for file in done.functionFiles { console.write("applied functions/\(file)") }
            console.write("The schema is at version \(Migrations.newest).")
        }
        guard failures.isEmpty else {
            throw CommandFailure("Databases that could not be migrated: \(failures.joined(separator: "; ")).")
        }
    }

    /// Brings another database to this program's version. Returns false if it had that version already.
    private static func migrate(
        _ record: DatabaseRecord, _ primary: PostgresURL, _ arguments: ParsedArguments, _ console: Console
    ) throws -> Bool {
        let url = try DatabaseLogins(arguments).url(of: record, primary: primary)
        let other = try LogConnection(url.withApplicationName("pathmirror migrate"))
        defer { other.close() }
        console.interruption.stops(other.cancelHandle)
        // The database was migrated when it was added: one without a schema must be a different database.
        try other.check(is: record)
        return try !migrate(other, record.name, arguments, console).isEmpty
    }

    private static func migrate(
        _ connection: LogConnection, _ database: String, _ arguments: ParsedArguments, _ console: Console
    ) throws -> Migrations.Applied {
        let done = try console.reporting("\(database): migrating", isQuiet: arguments.has("json")) { line in
            try connection.migrate { line.note("\(database): migration \($0)") }
        }
        for mistake in try StoredExpressions.mistakes(connection) {
            console.error("\(database): \(mistake.what) (warning)")
        }
        return done
    }
}

struct MigrateStatusCommand: Command {
    static let specification = CommandSpecification(
        "migrate status", "lists the migrations; exits 1 if some are missing",
        options: DatabaseLocator.options + [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try LogConnection(
            try DatabaseLocator.url(arguments, of: .primary).withApplicationName("pathmirror migrate"))
        defer { connection.close() }
        console.interruption.stops(connection.cancelHandle)
        let (migrations, files) = try connection.migrationStatus()
        if arguments.has("json") {
            for status in migrations {
                console.write(json(.number(Int64(status.version)), status.name, status.appliedAt))
            }
            for status in files { console.write(json(.null, "functions/\(status.name)", status.appliedAt)) }
        } else {
            var table = TextTable(["MIGRATION", "APPLIED"])
            for status in migrations { table.add(status.name, text(status.appliedAt)) }
            for status in files { table.add("functions/\(status.name)", text(status.appliedAt)) }
            table.write(to: console)
        }
        try connection.checkSchema()
    }

    private static func json(_ version: JSONOutput, _ name: String, _ appliedAt: Int64?) -> String {
        JSONOutput.object([
            "version": version, "name": .text(name),
            "appliedAt": JSONOutput(appliedAt.map { Timestamp.iso8601(unixMilliseconds: $0 * 1000) }),
        ]).line
    }

    private static func text(_ appliedAt: Int64?) -> String {
        appliedAt.map { "applied \(Timestamp.iso8601(unixMilliseconds: $0 * 1000))" } ?? "missing"
    }
}
