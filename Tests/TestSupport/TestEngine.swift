public import Engine
import Glibc
public import LogStore
public import Postgres
public import Runtime

/// An engine on a test's database, configured like a gateway's.
public final class TestEngine: Sendable {
    public let engine: Engine
    public let metrics = EngineMetrics()

    /// Creates an engine that polls the heads only every ten minutes by default, so that tests depend on announcements.
    public init(
        _ url: PostgresURL, logger: Logger = Logger(level: .error, descriptor: -1), budget: TreeBudget? = nil,
        _ change: (inout EngineSettings, inout LogConnection.Settings) -> Void = { _, _ in }
    ) throws {
        var settings = EngineSettings()
        settings.createsNamespaces = true
        settings.pollMilliseconds = 600_000
        var session = LogConnection.Settings()
        change(&settings, &session)
        engine = try Engine(
            url: url, settings: settings, connectionSettings: session, metrics: metrics, logger: logger,
            budget: budget)
    }

    /// Returns the namespace once it is loaded.
    public func namespace(_ name: String = "test") throws -> LiveNamespace {
        try load(name).get()
    }

    /// Loads a namespace, and waits for the result.
    public func load(_ name: String) -> Result<LiveNamespace, EngineError> {
        let result = Condition<Result<LiveNamespace, EngineError>?>(nil)
        engine.withNamespace(name) { loaded in result.broadcast { $0 = loaded } }
        return result.wait(milliseconds: 30_000) { $0 } ?? .failure(.unavailable("not answered in 30 s"))
    }

    public func stop() { engine.stop(milliseconds: 10_000) }
}

/// Runs `body` with engines on one new database, and stops them afterwards.
public func withEngines<Value>(
    _ count: Int = 1, _ change: (inout EngineSettings, inout LogConnection.Settings) -> Void = { _, _ in },
    _ body: (PostgresURL, [TestEngine]) throws -> Value
) throws -> Value {
    try withDatabase { url in
        var engines: [TestEngine] = []
        defer { for engine in engines { engine.stop() } }
        for _ in 0..<count { engines.append(try TestEngine(url, change)) }
        return try body(url, engines)
    }
}

extension LiveNamespace {
    /// Waits until the namespace has reached `seq` in this engine. Returns false after `seconds`.
    public func waitFor(_ seq: Int64, seconds: Int64 = 30) -> Bool {
        let isThere = Condition(false)
        whenApplied(seq) { isThere.broadcast { $0 = true } }
        return isThere.wait(milliseconds: seconds * 1_000) { $0 ? true : nil } ?? false
    }
}
