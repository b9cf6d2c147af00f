import LogStore
import Postgres
import Runtime

/// Logins for databases other than the primary database, if they differ from the primary database's login: a file of lines `NAME
/// CONNINFO`, such as `b user=pathmirror password=secret`. The tables of the primary database contain the addresses of databases, and no
/// password.
struct DatabaseLogins: Sendable {
    static let option = OptionSpecification(
        "database-credentials", "FILE",
        "file with logins of other databases, one a line: NAME and options of libpq such as user=… password=…; default: the primary database's login"
    )

    private let file: String?
    private let check: SecretFile

    init(_ arguments: ParsedArguments) {
        file = arguments[Self.option.name]
        check = SecretFile(arguments)
    }

    /// Reads the current login for a database; nil if the file has none.
    func login(for name: String) throws -> PostgresURL? {
        guard let file else { return nil }
        return try Self.read(try Files.read(file), file)[name]
    }

    /// A warning about access of other users to the file; called once at the start.
    func warning() throws -> SecretFile.Warning? { try file.flatMap { try check.check($0) } }

    /// Returns the URL of a database.
    func url(of record: DatabaseRecord, primary: PostgresURL) throws -> PostgresURL {
        record.url(primary: primary, login: try login(for: record.name))
    }

    /// - Throws: an error with the number of the line, without its text, which contains a password.
    static func read(_ bytes: [UInt8], _ file: String) throws -> [String: PostgresURL] {
        var found: [String: PostgresURL] = [:]
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            // Files written on Windows have CR LF.
            let end = line.last == 0x0D ? line.dropLast() : line
            let text = String(decoding: end, as: UTF8.self).drop { $0 == " " || $0 == "\t" }
            if text.isEmpty || text.hasPrefix("#") { continue }
            let parts = text.split(maxSplits: 1, omittingEmptySubsequences: true) { $0 == " " || $0 == "\t" }
            guard parts.count == 2, let login = try? PostgresURL(String(parts[1])) else {
                throw CommandFailure(
                    "\(file), line \(index + 1): expected a database's name and options of libpq, such as user=… password=…"
                )
            }
            found[String(parts[0])] = login
        }
        return found
    }
}

/// Warnings about connections that an attacker on the network could intercept.
enum DatabaseWarning {
    /// A warning about a password on the command line, which every user of this machine can read while the program runs. Nil if there is
    /// none.
    static func ofCommandLine(_ arguments: ParsedArguments) -> String? {
        let seen = "every user of this machine can read a password on the command line"
        if arguments.source("database-url") == .commandLine, hasPassword(arguments["database-url"]) {
            return "\(seen); use --database-url-file, PATHMIRROR_DATABASE_URL, or a password file (PGPASSFILE)"
        }
        // A URL argument names another database, which the primary database's login may also open.
        guard hasPassword(arguments.positional("URL")) else { return nil }
        return "\(seen); leave it out of URL and use the login of --database-url-file, --database-credentials, "
            + "or a password file (PGPASSFILE)"
    }

    private static func hasPassword(_ url: String?) -> Bool {
        url.flatMap { try? PostgresURL($0) }?.hasPassword == true
    }

    /// Names only hosts, as the URL may contain a password.
    static func log(_ url: PostgresURL, _ logger: Logger) {
        let hosts = url.unverifiedHosts()
        guard !hosts.isEmpty else { return }
        logger.warning(
            "the connection to PostgreSQL crosses a network and does not verify the server: an attacker on the network can read and change all data",
            [
                ("hosts", hosts.joined(separator: ",")), ("sslmode", url.sslMode()),
                ("fix", "sslmode=verify-full and sslrootcert=FILE in --database-url, or PGSSLMODE and PGSSLROOTCERT"),
            ])
    }
}
