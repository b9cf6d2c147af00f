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
        console.interruption.stops(connection.cancelHandle)
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
            var table = TextTable(["MIGRATION", "APPLIED"])
            for status in migrations { table.add(status.name, text(status.appliedAt)) }
            for status in files { table.add("functions/\(status.name)", text(status.appliedAt)) }
            table.write(to: console)
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
