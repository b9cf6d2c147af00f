import LogStore
import Postgres
import Runtime

struct MigrateStatusCommand: Command {
    static let specification = CommandSpecification(
        "migrate status", "lists the migrations; exits 1 if some are missing", options: Database.options + [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try LogConnection(
            try Database.url(arguments, of: .home).withApplicationName("pathmirror migrate"))
        defer { connection.close() }
        let (migrations, files) = try connection.migrationStatus()
        if arguments.has("json") {
            let rows =
                migrations.map {
                    "{\"version\":\($0.version),\"name\":\"\($0.name)\",\"appliedAt\":\(json($0.appliedAt))}"
                }
                + files.map {
                    "{\"version\":null,\"name\":\"functions/\($0.name)\",\"appliedAt\":\(json($0.appliedAt))}"
                }
            console.write("[\(rows.joined(separator: ","))]")
        } else {
            for status in migrations { console.write("\(status.name)  \(text(status.appliedAt))") }
            for status in files { console.write("functions/\(status.name)  \(text(status.appliedAt))") }
        }
        try connection.checkSchema()
    }

    private static func json(_ appliedAt: Int64?) -> String {
        appliedAt.map { "\"\(Timestamp.iso8601(unixMilliseconds: $0 * 1000))\"" } ?? "null"
    }

    private static func text(_ appliedAt: Int64?) -> String {
        appliedAt.map { "applied \(Timestamp.iso8601(unixMilliseconds: $0 * 1000))" } ?? "missing"
    }
}
