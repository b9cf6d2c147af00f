import LogStore
import Postgres
import PostgresCluster

/// How commands find the database: a URL, or the private cluster of `pathmirror dev`.
enum Database {
    static let options: [OptionSpecification] = [
        .init("database-url", "URL", "the PostgreSQL database, as libpq takes it"), fileOption,
        .init("data", "DIR", "the data directory of a running 'pathmirror dev'; default .pathmirror"),
    ]

    static let fileOption = OptionSpecification(
        "database-url-file", "FILE",
        "instead: a file whose first line is the database's URL, so that no password is seen")

    /// The URL that `--database-url` or `--database-url-file` gives; nil where neither does. Of what is given in two ways the
    /// command line counts before the environment, and that before the configuration file.
    static func givenURL(_ arguments: ParsedArguments) throws -> PostgresURL? {
        let (inline, inFile) = (arguments.source("database-url"), arguments.source("database-url-file"))
        guard inline != inFile || inline == nil else {
            throw UsageError("Give either --database-url or --database-url-file.")
        }
        if let inFile, inline.map({ inFile < $0 }) ?? true, let file = arguments["database-url-file"] {
            let line = try Files.read(file, maxBytes: 64 * 1024).prefix { $0 != 0x0A && $0 != 0x0D }
            guard !line.isEmpty else { throw CommandFailure("There is no URL in the first line of \(file).") }
            return try PostgresURL(String(decoding: line, as: UTF8.self))
        }
        return try arguments["database-url"].map { text throws in try PostgresURL(text) }
    }

    /// - Parameter dataOption: the option that names the data directory, where `--data` is something else.
    static func url(_ arguments: ParsedArguments, dataOption: String = "data") throws -> PostgresURL {
        if let url = try givenURL(arguments) { return url }
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
        _ arguments: ParsedArguments, _ console: Console, _ purpose: String, dataOption: String = "data"
    ) throws -> LogConnection {
        var settings = LogConnection.Settings()
        // What an operator starts takes as long as it takes.
        settings.connection.statementTimeoutMilliseconds = 0
        let connection = try LogConnection(
            try url(arguments, dataOption: dataOption).withApplicationName("pathmirror \(purpose)"), settings: settings)
        console.interruption.stops(connection.cancelHandle)
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
