import LogStore
import Postgres

/// A database that is said to be somewhere else now. Gateways that run go on with the old address until they are restarted, and others begin with the new one: so
/// nothing may take writes at the old one any more, unless it is the same database under another name.
enum MovedDatabase {
    private static let connectMilliseconds: Int64 = 3_000

    /// - Parameters:
    ///   - known: the database as the home has it.
    ///   - old: how to get there.
    ///   - new: a session at the new address.
    /// - Throws: where the old address still has the database, and the new one has another copy of it.
    static func check(_ known: DatabaseRecord, at old: PostgresURL, _ new: LogConnection) throws {
        var settings = LogConnection.Settings()
        settings.connection.connectTimeoutMilliseconds = connectMilliseconds
        let there: LogConnection
        do {
            there = try LogConnection(old.withApplicationName("pathmirror add"), settings: settings)
        } catch {
            // Nobody takes writes there, as far as can be seen from here.
            return
        }
        defer { there.close() }
        guard (try? there.installation()) == known.installation, try !new.isSameDatabase(as: there) else { return }
        throw CommandFailure(
            "At \(known.address) \(known.name) still takes writes, and running gateways go on writing there: the namespaces would be in two databases. Stop the old server first, or rename the old database, and add it again then."
        )
    }
}
