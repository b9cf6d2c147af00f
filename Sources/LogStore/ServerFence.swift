public import Postgres
public import Runtime
import Synchronization

/// Keeps all threads of a program from going back to a server that another one has taken over from: a primary that nobody has
/// stopped would take writes that are lost, or fork the log. Any thread may use it.
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
///     same cluster, newer timeline            this server        promoted; all former connections are abandoned
///     same cluster, older timeline            stays              refused as `outdated`
///     another cluster, or only one tells      this server        another; all former connections are abandoned
///     neither of the two tells its cluster    stays              known
///
/// PostgreSQL counts a cluster's timeline up when a standby is promoted. Threads that wait on an abandoned connection get
/// an error, and open the next connection here.
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

/// Which server answers: a cluster, and which of the histories that it has been through.
public struct ServerIdentity: Sendable, Equatable {
    /// The cluster's, the same for all its standbys and backups; nil where the role may not ask.
    public let system: Int64?
    /// Grows by one with each promotion of a standby and each restore to a point in time.
    public let timeline: Int64

    public init(system: Int64?, timeline: Int64) {
        self.system = system
        self.timeline = timeline
    }
}

extension LogConnection {
    /// Returns when the synchronous standbys have all that can be seen now: something of this session is committed behind it.
    /// Whoever finds in the database what an attempt of unknown outcome has written waits so before telling anybody.
    ///
    /// - Throws: `localCommit` as for any commit.
    public func waitForStandbys() throws(LogStoreError) {
        // A transaction that only has a number waits for nobody: there must be something of it in the write-ahead log.
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("select pg_logical_emit_message(true, 'pathmirror', '')")
        }
    }

    /// Which server this session is on.
    ///
    /// - Throws: `standby` where it only repeats what another one writes, `readOnly` where it was told to take no writes.
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

/// The connections to the database that some threads have, so that a thread which finds out that the database is
/// gone can tell the others, who wait for it in vain.
public final class OpenConnections: Sendable {
    private struct Entry: Sendable {
        weak let handle: PostgresCancelHandle?
    }
    private let entries = Mutex<[Entry]>([])

    public init() {}

    /// Counts a connection in; one that is closed leaves by itself.
    public func add(_ handle: PostgresCancelHandle) {
        entries.withLock { entries in
            entries.removeAll { $0.handle == nil }
            entries.append(Entry(handle: handle))
        }
    }

    /// Gives up the connections from which nothing has come since that monotonic millisecond: whoever waits for one of
    /// them stops waiting, and whoever has one at rest opens another when it needs one. Returns how many those were.
    @discardableResult
    public func abandonSilent(since time: Milliseconds) -> Int {
        abandon { $0.lastHeardMilliseconds < time }
    }

    /// Gives up all connections.
    @discardableResult
    public func abandonAll() -> Int { abandon { _ in true } }

    private func abandon(_ isMeant: (PostgresCancelHandle) -> Bool) -> Int {
        let handles = entries.withLock { $0.compactMap(\.handle) }.filter(isMeant)
        for handle in handles { handle.abandon() }
        return handles.count
    }
}
