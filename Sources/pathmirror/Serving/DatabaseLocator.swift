import LogStore
import Postgres
import PostgresCluster

/// Finds the database of a command: by a URL, or as the private cluster of `pathmirror dev`. This is the primary database. Commands about
/// a namespace use the database that the primary database records for it.
enum DatabaseLocator {
    static let options: [OptionSpecification] = [
        urlOption, fileOption, dataOption,
        .init("in", "DB", "another database, by name; default the namespace's, or the primary database"),
        DatabaseLogins.option,
    ]

    static let urlOption = OptionSpecification(
        "database-url", "URL", "the (primary) PostgreSQL database, as a libpq URL or connection string")

    static let dataOption = OptionSpecification(
        "data", "DIR", "the data directory of a running 'pathmirror dev'; default .pathmirror")

    static let fileOption = OptionSpecification(
        "database-url-file", "FILE",
        "instead: a file whose first line is the database's URL, which keeps the password secret")

    /// The database that a command uses, unless `--in` names one.
    enum Subject {
        case primary
        /// The database of the namespace that `--ns` names, or of the default namespace.
        case namespace
        /// The database of the namespace that `--ns` names, or else the primary database.
        case namespaceIfGiven
        case of(String)

        func namespace(_ arguments: ParsedArguments) -> String? {
            switch self {
            case .primary: nil
            case .namespace: DatabaseLocator.namespaceName(arguments)
            case .namespaceIfGiven: arguments["ns"].map { _ in DatabaseLocator.namespaceName(arguments) }
            case .of(let name): name
            }
        }
    }

    /// The URL that `--database-url` or `--database-url-file` gives; nil without both. If both are given, the command line has precedence
    /// over the environment, and the environment over the configuration file.
    static func givenURL(_ arguments: ParsedArguments) throws -> PostgresURL? {
        let (inline, inFile) = (arguments.source("database-url"), arguments.source("database-url-file"))
        guard inline != inFile || inline == nil else {
            throw UsageError("Give either --database-url or --database-url-file.")
        }
        if let inFile, inline.map({ inFile < $0 }) ?? true, let file = arguments["database-url-file"] {
            let line = try Files.read(file, maxBytes: 64 * 1024).prefix { $0 != 0x0A && $0 != 0x0D }
            guard !line.isEmpty else { throw CommandFailure("The first line of \(file) has no URL.") }
            return try PostgresURL(String(decoding: line, as: UTF8.self))
        }
        return try arguments["database-url"].map { text throws in try PostgresURL(text) }
    }

    /// The URL of the primary database.
    static func primary(_ arguments: ParsedArguments) throws -> PostgresURL {
        if let url = try givenURL(arguments) { return url }
        let directory = arguments[dataOption.name] ?? ".pathmirror"
        guard let url = PostgresCluster.runningURL(dataDirectory: directory) else {
            throw CommandFailure(
                "No database: give --database-url, or --data with the directory of a running 'pathmirror dev' (\(directory) has none)."
            )
        }
        return url
    }

    /// The URL of the database that the command uses.
    static func url(_ arguments: ParsedArguments, of subject: Subject = .namespace) throws -> PostgresURL {
        let primary = try primary(arguments)
        guard arguments["in"] ?? subject.namespace(arguments) != nil else { return primary }
        let connection = try LogConnection(primary.withApplicationName("pathmirror placement"))
        defer { connection.close() }
        guard let (record, location) = try other(arguments, subject, connection, primary) else { return primary }
        let look = try LogConnection(location.withApplicationName("pathmirror placement"))
        defer { look.close() }
        try look.check(is: record)
        return location
    }

    /// Opens a session on a database whose schema has this program's version.
    static func connection(
        _ arguments: ParsedArguments, _ console: Console, _ purpose: String, of subject: Subject = .namespace
    ) throws -> LogConnection {
        let primary = try primary(arguments)
        let connection = try open(primary, console, purpose)
        guard let (record, location) = try other(arguments, subject, connection, primary) else { return connection }
        connection.close()
        return try open(location, console, purpose, of: record)
    }

    /// Opens a session on the primary database, or on a database that it names.
    ///
    /// - Parameter record: the database as recorded in the primary database; nil for the primary database. The session fails if another
    ///   database is at that address.
    static func open(
        _ url: PostgresURL, _ console: Console, _ purpose: String, of record: DatabaseRecord? = nil
    ) throws -> LogConnection {
        var settings = LogConnection.Settings()
        // Statements of commands have no timeout.
        settings.connection.statementTimeoutMilliseconds = 0
        let connection = try LogConnection(url.withApplicationName("pathmirror \(purpose)"), settings: settings)
        console.interruption.stops(connection.cancelHandle)
        if let record { try connection.check(is: record) }
        try connection.checkSchema()
        return connection
    }

    /// The other database that a command uses; nil for the primary database.
    private static func other(
        _ arguments: ParsedArguments, _ subject: Subject, _ connection: LogConnection, _ primary: PostgresURL
    ) throws -> (DatabaseRecord, PostgresURL)? {
        let record: DatabaseRecord?
        if let name = arguments["in"] {
            record = name == DatabaseRecord.primary ? nil : try Self.record(name, connection)
        } else {
            record = try subject.namespace(arguments).flatMap { try connection.database(of: $0) }
        }
        return try record.map { ($0, try DatabaseLogins(arguments).url(of: $0, primary: primary)) }
    }

    /// Returns the record of a database from the primary database.
    static func record(_ name: String, _ primary: LogConnection) throws -> DatabaseRecord {
        let databases = try primary.databases()
        guard let record = databases.first(where: { $0.name == name }) else { throw unknown(name, databases) }
        return record
    }

    /// The error for an unknown database.
    static func unknown(_ name: String, _ databases: [DatabaseRecord]) -> CommandFailure {
        let near = NearestWord.all(name, among: [DatabaseRecord.primary] + databases.map(\.name))
        return CommandFailure(
            "There is no database \"\(name)\": see 'pathmirror database ls'.\(NearestWord.question(near))")
    }

    /// The names of all namespaces, in all databases.
    static func namespaceNames(_ arguments: ParsedArguments, _ console: Console) throws -> [String] {
        let primary = try open(try primary(arguments), console, "placement")
        defer { primary.close() }
        let elsewhere = try primary.placements(since: -1).filter { $0.database != nil }.map(\.namespace)
        return try primary.allNamespaces().map(\.name) + elsewhere
    }

    /// Throws if namespaces are in more than one database: one operation can't cover all of them.
    static func checkAreTogether(
        _ namespaces: Set<String>, _ arguments: ParsedArguments, _ console: Console
    ) throws {
        guard namespaces.count > 1, arguments["in"] == nil else { return }
        let connection = try open(try primary(arguments), console, "placement")
        defer { connection.close() }
        let databases = Set(try namespaces.map { try connection.database(of: $0)?.name })
        guard databases.count > 1 else { return }
        throw CommandFailure(
            "The namespaces \(namespaces.sorted().joined(separator: ", ")) are in several databases: run the command for each with --ns."
        )
    }

    /// Throws if a namespace that a command writes is in another database than the namespace that it reads, or if it would
    /// be created in a database of which gateways do not know that it has the namespace.
    static func checkTarget(
        _ target: String, of command: String, _ arguments: ParsedArguments, _ console: Console
    ) throws {
        let primary = try open(try primary(arguments), console, "placement")
        defer { primary.close() }
        guard try !primary.databases().isEmpty else { return }
        let source = namespaceName(arguments)
        let here = try arguments["in"] ?? primary.database(of: source)?.name ?? DatabaseRecord.primary
        var there = try primary.database(of: target)?.name
        if there == nil, try primary.namespace(named: target) != nil { there = DatabaseRecord.primary }
        guard let there else {
            guard here != DatabaseRecord.primary else { return }
            throw CommandFailure(
                "Namespace \"\(target)\" does not exist, and \"\(source)\" is in the database \(here). Create it there by 'pathmirror namespace create \(target) --in \(here)', and run this command again."
            )
        }
        guard there != here else { return }
        throw CommandFailure(
            "Namespace \"\(target)\" is in the database \(there), and \"\(source)\" is in \(here): '\(command)' writes only into the same database. Write the tree to a file by --output instead of --into, and load it by 'pathmirror import FILE --ns \(target)'."
        )
    }

    /// The first namespace that `--ns` names, which is also the default one for `serve`.
    static func namespaceName(_ arguments: ParsedArguments) -> String {
        arguments["ns"]?.split(separator: ",").first.map(String.init) ?? "default"
    }

    /// The namespace that `--ns` names.
    static func namespace(
        _ arguments: ParsedArguments, _ connection: LogConnection, creating: Bool = false
    ) throws -> NamespaceRecord {
        let name = namespaceName(arguments)
        guard let record = try connection.namespace(named: name, creating: creating) else {
            throw LogStoreError.unknownNamespace(name)
        }
        return record
    }
}
