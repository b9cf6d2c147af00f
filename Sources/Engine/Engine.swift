public import LogStore
public import Postgres
public import Runtime

/// The heart of a gateway: the namespaces in memory, the committers that turn writes into log entries, and the tail that
/// follows what other gateways write. Start it once; any thread may use it.
public final class Engine: Sendable {
    private let core: EngineCore
    private let wake: WakeHandle
    private let threads: [Thread]

    /// Starts the threads; the database may be absent, and come later.
    public init(
        url: PostgresURL, settings: EngineSettings = EngineSettings(),
        sessionSettings: LogSession.Settings = LogSession.Settings(), metrics: EngineMetrics, logger: Logger
    ) throws(PostgresError) {
        let core = EngineCore(
            url: url, settings: settings, sessionSettings: sessionSettings, metrics: metrics, logger: logger)
        let wake = try WakeHandle()
        self.core = core
        self.wake = wake
        var threads = (0..<settings.committers).map { index in
            Thread(name: "committer-\(index)") { Committer(core, index: index).run() }
        }
        threads.append(Thread(name: "tail") { Tail(core, wake).run() })
        self.threads = threads
    }

    public var metrics: EngineMetrics { core.metrics }
    public var health: DatabaseHealth { core.health }

    /// The namespace, if it is in use already.
    public func liveNamespace(_ name: String) -> LiveNamespace? { core.namespaces.live(name) }

    public var liveNamespaces: [LiveNamespace] { core.namespaces.all }

    /// Calls back with the namespace once it is loaded: at once where it is in use, else from another thread.
    public func withNamespace(
        _ name: String, _ body: @escaping @Sendable (Result<LiveNamespace, EngineError>) -> Void
    ) {
        if core.namespaces.request(name, body) { core.add(.load(name)) }
    }

    /// Refuses new writes, commits those that wait (for so long), and ends the threads.
    public func stop(milliseconds: Int64) {
        for namespace in core.namespaces.all { namespace.refuseWrites(.stopping) }
        let deadline = Clock.monotonicMilliseconds + milliseconds
        while Clock.monotonicMilliseconds < deadline, core.namespaces.all.contains(where: { !$0.isIdle }) {
            core.pause(milliseconds: 2)
        }
        core.beginStop()
        wake.wake()
        for thread in threads { thread.join() }
        for namespace in core.namespaces.all {
            for item in namespace.takeAllWaiting() { item.sink.complete([(item.token, .failed(.stopping))]) }
        }
    }
}
