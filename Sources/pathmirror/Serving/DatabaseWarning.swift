import Postgres
import Runtime

/// What is said at the start of a database that somebody on the way could take the place of.
enum DatabaseWarning {
    /// What is said of a password on the command line, which every user of this machine can read while the program runs. Nil
    /// where there is none.
    static func ofCommandLine(_ arguments: ParsedArguments) -> String? {
        let seen = "a password on the command line can be read by everybody on this machine"
        if arguments.source("database-url") == .commandLine, hasPassword(arguments["database-url"]) {
            return "\(seen); use --database-url-file, PATHMIRROR_DATABASE_URL, or a password file (PGPASSFILE)"
        }
        // Where an argument is a URL it is of another database, into which the home's login leads as well.
        guard hasPassword(arguments.positional("URL")) else { return nil }
        return "\(seen); leave it out of URL and use the login of --database-url-file, --database-credentials, "
            + "or a password file (PGPASSFILE)"
    }

    private static func hasPassword(_ url: String?) -> Bool {
        url.flatMap { try? PostgresURL($0) }?.hasPassword == true
    }

    /// Names hosts only: never the URL, which may hold a password.
    static func log(_ url: PostgresURL, _ logger: Logger) {
        let hosts = url.unverifiedHosts()
        guard !hosts.isEmpty else { return }
        logger.warning(
            "PostgreSQL is reached over a network and not asked to prove who it is: whoever is on the way can read and change everything",
            [
                ("hosts", hosts.joined(separator: ",")), ("sslmode", url.sslMode()),
                ("fix", "sslmode=verify-full and sslrootcert=FILE in --database-url, or PGSSLMODE and PGSSLROOTCERT"),
            ])
    }
}
