import LogStore
import Postgres
import PostgresCluster

/// How commands find the database: a URL, or the private cluster of `pathmirror dev`.
enum Database {
    static let options: [OptionSpecification] = [
        .init("database-url", "URL", "the PostgreSQL database, as libpq takes it"),
        .init("data", "DIR", "the data directory of a running 'pathmirror dev'; default .pathmirror"),
    ]

    static func url(_ arguments: ParsedArguments) throws -> PostgresURL {
        if let text = arguments["database-url"] { return try PostgresURL(text) }
        let directory = arguments["data"] ?? ".pathmirror"
        guard let url = PostgresCluster.runningURL(dataDirectory: directory) else {
            throw CommandFailure(
                "No database: give --database-url, or --data with the directory of a running 'pathmirror dev' (\(directory) has none).")
        }
        return url
    }

    /// A session on a database whose schema is this program's.
    static func session(_ arguments: ParsedArguments, _ purpose: String) throws -> LogSession {
        let session = try LogSession(try url(arguments).withApplicationName("pathmirror \(purpose)"))
        try Migrations.check(session.connection)
        return session
    }

    /// The namespace that `--ns` names.
    static func namespace(
        _ arguments: ParsedArguments, _ session: LogSession, creating: Bool = false
    ) throws -> NamespaceRecord {
        let name = arguments["ns"] ?? "default"
        guard let record = try session.namespace(named: name, creating: creating) else {
            throw CommandFailure("There is no namespace \"\(name)\".")
        }
        return record
    }
}
