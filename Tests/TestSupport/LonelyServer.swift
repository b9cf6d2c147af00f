import Glibc
import LogStore
public import Postgres
import PostgresCluster
import Runtime

/// A test's own server that waits for a nonexistent standby once `synchronous` was called.
public final class LonelyServer {
    private let directory: String
    private let cluster: PostgresCluster
    public let url: PostgresURL

    public init() throws {
        try TestCluster.cancelWithoutServers()
        directory = TemporaryFolder.path("lonely")
        var settings = ClusterSettings(dataDirectory: directory)
        settings.durability = .testFast
        cluster = try PostgresCluster.start(settings)
        url = cluster.url
        _ = try Migrations.up(try PostgresConnection(url))
    }

    deinit {
        cluster.stop(.immediate)
        TemporaryFolder.remove(directory)
    }

    /// Sets whether commits wait for the standby. Returns once the setting is effective.
    public func synchronous(_ isOn: Bool) throws {
        let administrator = try PostgresConnection(url)
        defer { administrator.close() }
        let wanted = isOn ? "nobody" : ""
        try administrator.execute("alter system set synchronous_standby_names = '\(wanted)'")
        try administrator.execute("select pg_reload_conf()")
        guard
            try eventually({
                try administrator.execute("show synchronous_standby_names").string(0, 0) == wanted
            })
        else { throw NoReload() }
        if isOn { try waitUntilACommitWaits(administrator) }
    }

    /// Sessions learn about the standby before the process that makes all of them wait for it.
    private func waitUntilACommitWaits(_ administrator: PostgresConnection) throws {
        let url = self.url
        let pid = Condition<Int32?>(nil)
        let isDone = Condition(false)
        let probe = Thread(name: "probe") {
            defer { isDone.broadcast { $0 = true } }
            guard let connection = try? PostgresConnection(url) else { return }
            defer { connection.close() }
            guard (try? connection.execute("set client_min_messages = warning")) != nil else { return }
            pid.broadcast { $0 = connection.backendPID }
            // The first statement that had to wait and is then released counts as lost.
            while (try? connection.execute("select txid_current()")) != nil {}
        }
        defer { probe.join() }
        _ = try eventually {
            try administrator.execute(
                "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep' and pid = $1",
                [.int4(pid.withLock { $0 } ?? 0)])
            return isDone.withLock { $0 }
        }
    }

    /// Runs `body` while sessions that wait for the standby are released repeatedly.
    public func cancellingWaits<Value>(_ body: () throws -> Value) throws -> Value {
        let url = self.url
        let done = Condition(false)
        let canceller = Thread(name: "canceller") {
            guard let administrator = try? PostgresConnection(url) else { return }
            defer { administrator.close() }
            while !done.withLock({ $0 }) {
                _ = try? administrator.execute(
                    "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
                usleep(10_000)
            }
        }
        defer {
            done.broadcast { $0 = true }
            canceller.join()
        }
        return try body()
    }

    /// The server did not load its new configuration.
    private struct NoReload: Error {}
}
