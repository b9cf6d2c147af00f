import Postgres
import Runtime

/// What is said at the start of a database that somebody on the way could take the place of.
enum DatabaseWarning {
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
