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
