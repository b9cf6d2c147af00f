import LogStore
import Postgres

struct MigrateUpCommand: Command {
    static let specification = CommandSpecification(
        "migrate up", "brings the database's schema to this program's version", options: Database.options + [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try LogConnection(try Database.url(arguments).withApplicationName("pathmirror migrate"))
        defer { connection.close() }
        console.interruption.stops(connection.cancelHandle)
        let done = try connection.migrate()
        if arguments.has("json") {
            let names = done.migrations.map { "\"\($0.name)\"" }.joined(separator: ",")
            let files = done.functionFiles.map { "\"\($0)\"" }.joined(separator: ",")
            console.write("{\"applied\":[\(names)],\"functions\":[\(files)],\"version\":\(Migrations.newest)}")
            return
        }
        for migration in done.migrations { console.write("applied \(migration.name)") }
        for file in done.functionFiles { console.write("applied functions/\(file)") }
        console.write("The schema is at version \(Migrations.newest).")
    }
}
