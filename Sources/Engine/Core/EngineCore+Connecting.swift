import LogStore
import Postgres
import Runtime

extension EngineCore {
    /// How long a connection may be silent while it is waited for, unless more was asked of it than usual. Two of these
    /// pass until a write that waits for the database is given up.
    static func silenceMilliseconds(_ settings: EngineSettings) -> Milliseconds {
        max(3_000, settings.commitDeadlineMilliseconds / 2)
    }

    /// The most that opening a connection may take.
    static let mostConnectMilliseconds: Milliseconds = 5_000

    /// How long the tail waits for an answer until the database counts as lost.
    var lookMilliseconds: Milliseconds { min(max(3_000, 2 * settings.pollMilliseconds), 10_000) }

    /// Opens a connection for one of the engine's threads, to a server that may be written to and is not older than any that
    /// was met before.
    ///
    /// - Parameter deadline: the monotonic millisecond at which nobody cares any more.
    func connect(_ name: String, by deadline: Milliseconds? = nil) throws(LogStoreError) -> LogConnection {
        var settings = connectionSettings
        if let deadline {
            let left = max(500, deadline - Clock.monotonicMilliseconds)
            settings.connection.connectTimeoutMilliseconds = min(
                left, settings.connection.connectTimeoutMilliseconds)
        }
        let connection = try servers.open(url.withApplicationName("pathmirror \(name)"), settings)
        connections.add(connection.cancelHandle)
        return connection
    }

    /// The database has not answered in time, though nothing says that it is gone: what waits for it on other connections,
    /// and has heard nothing since, waits in vain.
    func databaseIsSilent(since moment: Int64, _ error: LogStoreError) {
        databaseFailed(error, isSilent: true)
        let count = connections.abandonSilent(since: moment)
        if count > 0 { logger.warning("connections given up, as the database is silent", [("count", "\(count)")]) }
    }
}
