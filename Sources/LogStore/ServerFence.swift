public import Postgres
public import Runtime
import Synchronization

/// Keeps all threads of a program from returning to a server that another one has replaced. An outdated primary that is
/// still running would accept writes that are lost, or fork the log. Thread-safe.
///
///     open(url) --> connect --> serverIdentity --> check(is: record) --> admit --> connection
///                      |              |                  |                 |
///                      |           standby,           another           outdated
///                      |           readOnly        installation            |
///                      +<-------------+------------------+-----------------+
///                   the next host of the URL, if there is one
///
/// The fence's state is `newest`, the identity of one server. `admit` compares a connection's server with it:
///
///     server of the connection                newest becomes     outcome
///     --------------------------------------  -----------------  ---------------------------------------------
///     the first server                        this server        known
///     same cluster, same timeline             this server        known
///     same cluster, newer timeline            this server        promoted; all earlier connections are closed
///     same cluster, older timeline            unchanged          rejected as `outdated`
///     another cluster, or only one is known   this server        another; all earlier connections are closed
///     neither of the two clusters is known    unchanged          known
///
/// PostgreSQL increments a cluster's timeline when a standby is promoted. Threads that wait on a closed connection get
/// an error, and open the next connection here.
public final class ServerFence: Sendable {
    /// The relation of a server to earlier ones.
    public enum Admission: Sendable, Equatable {
        /// The first server, or the same server as before.
        case known
        /// A standby was promoted, or a backup was restored to a point in time.
        case promoted(from: Int64, to: Int64)
        /// Another cluster, for example one into which a dump was restored.
        case another
    }

    private let newest = Mutex<ServerIdentity?>(nil)
    private let connections = OpenConnections()

    private let logger: Logger?
    private let record: DatabaseRecord?

    /// Creates a fence that knows no server yet.
    ///
    /// - Parameters:
    ///   - logger: receives one message for each server that replaces another one.
    ///   - record: the database that connections must reach, or nil if it is not known, as for the primary database.
    public init(_ logger: Logger? = nil, expecting record: DatabaseRecord? = nil) {
        self.logger = logger
        self.record = record
    }

    /// Opens a connection to a server that accepts writes and is not older than any earlier one. If the URL has several
    /// hosts and the first server is rejected, tries each host, because an outdated primary that is still running may
    /// answer first.
    ///
    /// - Throws: the errors of `admit` and of opening a connection.
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

    /// Checks the server of a new connection. If it has replaced another server, closes all connections admitted
    /// before. Threads that wait for them stop waiting.
    ///
    /// - Throws: `standby` and `readOnly` for a server that does not accept writes, `anotherInstallation` for another
    ///   database than the expected one, `outdated` for a server on an older timeline than an earlier one.
    private func admit(_ connection: LogConnection) throws(LogStoreError) {
        let server = try connection.serverIdentity()
        // The database is checked before the server counts as seen, because a server with another database must not
        // close the connections to the right one.
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
        // Another thread may have seen a newer server before this connection was added to the list.
        _ = try admit(server)
    }

    /// Compares a server with the newest one, and updates that.
    ///
    /// - Throws: `outdated` for a server on an older timeline than an earlier one.
    func admit(_ server: ServerIdentity) throws(LogStoreError) -> Admission {
        let (admission, refusal) = newest.withLock { newest -> (Admission, LogStoreError?) in
            guard let known = newest else {
                newest = server
                return (.known, nil)
            }
            guard let system = server.system, system == known.system else {
                // If neither server's cluster is known because the role may not query it, they can't be compared.
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

/// The identity of a server: its cluster and its timeline.
public struct ServerIdentity: Sendable, Equatable {
    /// The cluster's identifier, shared by all its standbys and backups. Nil if the role may not query it.
    public let system: Int64?
    /// Increases with each promotion of a standby and each restore to a point in time.
    public let timeline: Int64

    public init(system: Int64?, timeline: Int64) {
        self.system = system
        self.timeline = timeline
    }
}

extension LogConnection {
    /// Waits until the synchronous standbys have everything that is visible now, by committing something after it. A
    /// caller that has found the result of an attempt with unknown outcome must wait this way before it reports the
    /// result.
    ///
    /// - Throws: `localCommit`, as any commit.
    public func waitForStandbys() throws(LogStoreError) {
        // A transaction with only a transaction id waits for no standby: it must write to the write-ahead log.
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("select pg_logical_emit_message(true, 'pathmirror', '')")
        }
    }

    /// Returns the identity of this session's server.
    ///
    /// - Throws: `standby` if it is a standby, `readOnly` if it is configured to accept no writes.
    public func serverIdentity() throws(LogStoreError) -> ServerIdentity {
        let (isStandby, timeline, mayAsk, isReadOnly) = try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select pg_is_in_recovery(),
                    case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end,
                    has_function_privilege('pg_catalog.pg_control_system()', 'execute'),
                    current_setting('transaction_read_only')::boolean
                """)
            return (
                try rows.bool(0, 0), rows.isNull(0, 1) ? "" : try rows.string(0, 1), try rows.bool(0, 2),
                try rows.bool(0, 3)
            )
        }
        guard !isStandby else { throw .standby }
        guard !isReadOnly else { throw .readOnly }
        var system: Int64?
        if mayAsk {
            system = try translated { () throws(PostgresError) in
                try postgres.execute("select system_identifier from pg_catalog.pg_control_system()").int64(0, 0)
            }
        }
        return ServerIdentity(system: system, timeline: Int64(timeline, radix: 16) ?? 0)
    }
}

/// The open connections of some threads to the database. A thread that notices an outage can close the connections on
/// which the other threads wait in vain.
public final class OpenConnections: Sendable {
    private struct Entry: Sendable {
        weak let handle: PostgresCancelHandle?
    }
    private let entries = Mutex<[Entry]>([])

    public init() {}

    /// Adds a connection. Closed connections are removed automatically.
    public func add(_ handle: PostgresCancelHandle) {
        entries.withLock { entries in
            entries.removeAll { $0.handle == nil }
            entries.append(Entry(handle: handle))
        }
    }

    /// Closes the connections that have received nothing since `time`, in monotonic milliseconds. Threads that wait for
    /// them stop waiting, and the owners of idle ones open others when needed. Returns the number of closed
    /// connections.
    @discardableResult
    public func abandonSilent(since time: Milliseconds) -> Int {
        abandon { $0.lastHeardMilliseconds < time }
    }

    /// Closes all connections.
    @discardableResult
    public func abandonAll() -> Int { abandon { _ in true } }

    private func abandon(_ isMeant: (PostgresCancelHandle) -> Bool) -> Int {
        let handles = entries.withLock { $0.compactMap(\.handle) }.filter(isMeant)
        for handle in handles { handle.abandon() }
        return handles.count
    }
}
