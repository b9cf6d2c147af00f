public import Postgres
public import Runtime
import Synchronization

/// Keeps all threads of a program from going back to a server that another one has taken over from: a primary that nobody has
/// stopped would take writes that are lost, or fork the log. Any thread may use it.
public final class ServerFence: Sendable {
    /// How a server relates to those before it.
    public enum Admission: Sendable, Equatable {
        /// The first server, or the one that was there before.
        case known
        /// A standby was promoted, or a backup was restored to a point in time.
        case promoted(from: Int64, to: Int64)
        /// Another cluster, such as one that a dump was restored to.
        case another
    }

    private let newest = Mutex<ServerIdentity?>(nil)
    private let connections = OpenConnections()

    private let logger: Logger?
    private let record: DatabaseRecord?

    /// Knows no server yet.
    ///
    /// - Parameters:
    ///   - logger: is told, once, of each server that takes over from another one.
    ///   - record: which database each connection has to be to; nil where nobody has said, as of the home.
    public init(_ logger: Logger? = nil, expecting record: DatabaseRecord? = nil) {
        self.logger = logger
        self.record = record
    }

    /// Opens a connection to a server that may be written to and is not older than any that was met before. Where one of
    /// several hosts is refused for that, each of the others is tried: a primary that nobody has stopped may answer first.
    ///
    /// - Throws: what `admit` does, and what opening a connection does.
    public func open(
        _ url: PostgresURL, _ settings: LogConnection.Settings
    ) throws(LogStoreError) -> LogConnection {
        let hosts = url.eachHost
        do throws(LogStoreError) {
            return try openOne(url, settings)
        } catch {
            guard error.isRefusedServer, hosts.count > 1 else { throw error }
            var settings = settings
            settings.connection.connectTimeoutMilliseconds /= Milliseconds(hosts.count)
            for host in hosts {
                if let found = try? openOne(host, settings) { return found }
            }
            throw error
        }
    }

    private func openOne(
        _ url: PostgresURL, _ settings: LogConnection.Settings
    ) throws(LogStoreError) -> LogConnection {
        let connection = try LogConnection(url, settings: settings)
        do throws(LogStoreError) {
            try admit(connection)
            return connection
        } catch {
            connection.close()
            throw error
        }
    }

    /// Asks a new connection's server who it is. Where it has taken over from another one, all connections that were admitted
    /// before are given up: whoever waits for one of them stops waiting.
    ///
    /// - Throws: `standby` and `readOnly` for a server that can't be written to, `anotherInstallation` for another database than
    ///   the expected one, `outdated` for a server of an older timeline than one that has been met.
    private func admit(_ connection: LogConnection) throws(LogStoreError) {
        let server = try connection.serverIdentity()
        // Before the server counts as met: one with another database must not end the connections to the right one.
        if let record { try connection.check(is: record) }
        let admission = try admit(server)
        switch admission {
        case .known: break
        case .promoted(let old, let new):
            logger?.warning("the database was promoted", [("timeline", "\(new)"), ("was", "\(old)")])
            connections.abandonAll()
        case .another:
            logger?.warning("another database cluster answers", [("timeline", "\(server.timeline)")])
            connections.abandonAll()
        }
        connections.add(connection.cancelHandle)
        // Another thread may have met a newer one before this connection was among those that are given up.
        _ = try admit(server)
    }

    /// - Throws: `outdated` for a server of an older timeline than one that has been met.
    func admit(_ server: ServerIdentity) throws(LogStoreError) -> Admission {
        let (admission, refusal) = newest.withLock { newest -> (Admission, LogStoreError?) in
            guard let known = newest else {
                newest = server
                return (.known, nil)
            }
            guard let system = server.system, system == known.system else {
                // Whoever may not ask which cluster it is can't compare.
                guard server.system != known.system else { return (.known, nil) }
                newest = server
                return (.another, nil)
            }
            if server.timeline < known.timeline {
                return (.known, .outdated(timeline: server.timeline, newest: known.timeline))
            }
            newest = server
            return (
                server.timeline == known.timeline ? .known : .promoted(from: known.timeline, to: server.timeline), nil
            )
        }
        if let refusal { throw refusal }
        return admission
    }
}
