import LogStore
import Postgres
import Runtime

struct MigrateStatusCommand: Command {
    static let specification = CommandSpecification(
        "migrate status", "lists the migrations; exits 1 if some are missing", options: Database.options + [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try LogConnection(try Database.url(arguments).withApplicationName("pathmirror migrate"))
        defer { connection.close() }
        let all = try Migrations.status(connection.postgres)
        if arguments.has("json") {
            let rows = all.map { status in
                let time = status.appliedAt.map { "\"\(Timestamp.iso8601(unixMilliseconds: $0 * 1000))\"" } ?? "null"
                return "{\"version\":\(status.version),\"name\":\"\(status.name)\",\"appliedAt\":\(time)}"
            }
            console.write("[\(rows.joined(separator: ","))]")
        } else {
            for status in all {
                let time =
                    status.appliedAt.map { "applied \(Timestamp.iso8601(unixMilliseconds: $0 * 1000))" } ?? "missing"
                console.write("\(status.name)  \(time)")
            }
        }
        try Migrations.check(connection.postgres)
    }
}
