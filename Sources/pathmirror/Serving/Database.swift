import LogStore
import Postgres
import PostgresCluster

/// How commands find the database: a URL, or the private cluster of `pathmirror dev`.
enum Database {
    static let options: [OptionSpecification] = [
        .init("database-url", "URL", "the PostgreSQL database, as libpq takes it"),
        .init("data", "DIR", "the data directory of a running 'pathmirror dev'; default .pathmirror"),
    ]

    /// - Parameter dataOption: the option that names the data directory, where `--data` is something else.
    static func url(_ arguments: ParsedArguments, dataOption: String = "data") throws -> PostgresURL {
        if let text = arguments["database-url"] { return try PostgresURL(text) }
        let directory = arguments[dataOption] ?? ".pathmirror"
        guard let url = PostgresCluster.runningURL(dataDirectory: directory) else {
            throw CommandFailure(
                "No database: give --database-url, or --\(dataOption) with the directory of a running 'pathmirror dev' (\(directory) has none)."
            )
        }
        return url
    }

    /// A session on a database whose schema is this program's.
    static func connection(
        _ arguments: ParsedArguments, _ purpose: String, dataOption: String = "data"
    ) throws -> LogConnection {
        var settings = LogConnection.Settings()
        // What an operator starts takes as long as it takes.
        settings.connection.statementTimeoutMilliseconds = 0
        let connection = try LogConnection(
            try url(arguments, dataOption: dataOption).withApplicationName("pathmirror \(purpose)"), settings: settings)
        try connection.checkSchema()
        return connection
    }

    /// What `--ns` names: as for `serve`, the first namespace is the default one.
    static func namespaceName(_ arguments: ParsedArguments) -> String {
        arguments["ns"]?.split(separator: ",").first.map(String.init) ?? "default"
    }

    /// The namespace that `--ns` names.
    static func namespace(
        _ arguments: ParsedArguments, _ connection: LogConnection, creating: Bool = false
    ) throws -> NamespaceRecord {
        let name = namespaceName(arguments)
        guard let record = try connection.namespace(named: name, creating: creating) else {
            throw CommandFailure("There is no namespace \"\(name)\".")
        }
        return record
    }
}
