import LogStore
import Postgres

struct MigrateUpCommand: Command {
    static let specification = CommandSpecification(
        "migrate up", "brings the database's schema to this program's version", options: Database.options + [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try LogConnection(try Database.url(arguments).withApplicationName("pathmirror migrate"))
        defer { connection.close() }
        let done = try Migrations.up(connection.postgres)
        if arguments.has("json") {
            let names = done.map { "\"\($0.name)\"" }.joined(separator: ",")
            console.write("{\"applied\":[\(names)],\"version\":\(Migrations.newest)}")
            return
        }
        for migration in done { console.write("applied \(migration.name)") }
        console.write("The schema is at version \(Migrations.newest).")
    }
}
