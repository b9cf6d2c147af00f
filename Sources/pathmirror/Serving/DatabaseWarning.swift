import Postgres
import Runtime

/// What is said at the start of a database that somebody on the way could take the place of.
enum DatabaseWarning {
    /// What is said of a password on the command line, which every user of this machine can read while the program runs. Nil
    /// where there is none.
    static func ofCommandLine(_ arguments: ParsedArguments) -> String? {
        guard arguments.source("database-url") == .commandLine, let text = arguments["database-url"],
            (try? PostgresURL(text))?.hasPassword == true
        else { return nil }
        return "a password on the command line can be read by everybody on this machine; use --database-url-file, "
            + "PATHMIRROR_DATABASE_URL, or a password file (PGPASSFILE)"
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
