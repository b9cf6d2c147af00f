import LogStore
import Postgres
import Runtime
import Synchronization

/// What the engine's threads share.
final class EngineCore: Sendable {
    /// A piece of work for the next free committer.
    enum Job: Sendable {
        case work(LiveNamespace)
        case load(String)
        case stop
    }

    let url: PostgresURL
    let settings: EngineSettings
    let sessionSettings: LogSession.Settings
    let metrics: EngineMetrics
    let logger: Logger
    let health = DatabaseHealth()
    let namespaces: NamespaceTable
    private let jobs = Condition<[Job]>([])
    private let isStopping = Atomic<Bool>(false)

    init(
        url: PostgresURL, settings: EngineSettings, sessionSettings: LogSession.Settings, metrics: EngineMetrics,
        logger: Logger
    ) {
        self.url = url
        self.settings = settings
        self.sessionSettings = sessionSettings
        self.metrics = metrics
        self.logger = logger
        namespaces = NamespaceTable()
    }

    var stopsNow: Bool { isStopping.load(ordering: .acquiring) }

    func add(_ job: Job) { jobs.signal { $0.append(job) } }

    func takeJob() -> Job {
        jobs.wait { jobs in jobs.isEmpty ? nil : jobs.removeFirst() } ?? .stop
    }

    func beginStop() {
        isStopping.store(true, ordering: .releasing)
        jobs.broadcast { jobs in
            for _ in 0..<settings.committers { jobs.append(.stop) }
        }
    }

    /// Waits; ends early when the engine stops.
    func pause(milliseconds: Int64) {
        _ = jobs.wait(milliseconds: milliseconds) { _ in stopsNow ? true : nil }
    }

    func connect(_ name: String) throws(LogStoreError) -> LogSession {
        try LogSession(url.withApplicationName("pathmirror \(name)"), settings: sessionSettings)
    }

    func databaseFailed(_ error: LogStoreError) {
        if health.markDown("\(error)") { logger.error("database lost", [("error", "\(error)")]) }
    }

    func databaseAnswered() {
        if health.markUp() { logger.notice("database connected") }
    }
}
