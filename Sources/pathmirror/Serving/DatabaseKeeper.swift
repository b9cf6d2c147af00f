import Engine
import Feeds
import LogStore
import Placement
import Postgres
import Runtime

/// Starts what a gateway runs for each database that the home names: at the start, and when one is added. One that can't be reached,
/// or is not the one that was added, is tried again.
final class DatabaseKeeper: Sendable {
    private struct State: Sendable {
        /// What the home names and is not started.
        var awaited: [DatabaseRecord] = []
        var started: [String: DatabaseServices] = [:]
        var port: UInt16?
        /// What the log has said last of each that can't be used: what stays so is not said again.
        var told: [String: String] = [:]
        var isNews = false
        /// All that the home named at the start have been tried once.
        var hasTried = false
        var isStopping = false
    }
    private let shared: DatabaseServices.Shared
    private let home: PostgresURL
    private let databases: Databases
    private let state = Condition(State())
    private static let retryMilliseconds: Milliseconds = 2_000
    /// So long connecting takes at most: other databases wait.
    private static let connectMilliseconds: Milliseconds = 3_000

    init(_ shared: DatabaseServices.Shared, home: PostgresURL, _ databases: Databases) {
        self.shared = shared
        self.home = home
        self.databases = databases
    }

    /// The services of all databases but the home.
    var others: [DatabaseServices] { state.withLock { Array($0.started.values) } }

    /// The home names these.
    func found(_ records: [DatabaseRecord]) {
        state.broadcast { state in
            state.awaited = records.filter { state.started[$0.name] == nil }
            state.isNews = true
        }
    }

    /// The gateway listens on a port: from now on feeds are worked here.
    func begin(port: UInt16) {
        let started = state.withLock { state in
            state.port = port
            return Array(state.started.values)
        }
        for services in started { services.feeds.begin(port: port) }
    }

    /// Waits until all that are known have been started, or can't be for now; at most so long.
    func waitUntilTried(milliseconds: Milliseconds) {
        _ = state.wait(milliseconds: milliseconds) { state in state.hasTried ? true : nil }
    }

    /// Starts those that can be.
    private func startAwaited() {
        var failed: [String] = []
        for record in state.withLock({ $0.awaited }) {
            if state.withLock({ $0.isStopping }) { return }
            do {
                try start(record)
            } catch {
                failed.append(record.name)
                let reason = "\(error)"
                guard state.withLock({ $0.told.updateValue(reason, forKey: record.name) }) != reason else { continue }
                shared.options.logger.error(
                    "a database can't be used", [("database", record.name), ("error", reason)])
            }
        }
        databases.await(failed)
        state.broadcast { $0.hasTried = true }
    }

    private func start(_ record: DatabaseRecord) throws {
        let url = try shared.options.databaseLogins.url(of: record, home: home)
        try prepare(record, url)
        let services = try DatabaseServices(shared, url, number: databases.nextNumber, name: record.name)
        let port = state.withLock { state in
            state.started[record.name] = services
            state.awaited.removeAll { $0.name == record.name }
            state.told[record.name] = nil
            return state.port
        }
        services.engine.waitUntilConnected(milliseconds: Self.connectMilliseconds)
        databases.add(
            Databases.Member(
                number: services.engine.database, name: record.name, engine: services.engine, feeds: services.feeds))
        if let port { services.feeds.begin(port: port) }
        shared.options.logger.notice(
            "database added", [("database", record.name), ("address", record.address)])
    }

    /// Sees to it that it is the database that was added, with this program's schema.
    private func prepare(_ record: DatabaseRecord, _ url: PostgresURL) throws {
        DatabaseWarning.log(url, shared.options.logger)
        var settings = shared.options.connection
        settings.connection.connectTimeoutMilliseconds = Self.connectMilliseconds
        let connection = try LogConnection(url.withApplicationName("pathmirror start"), settings: settings)
        defer { connection.close() }
        guard try connection.installation() == record.installation else {
            throw CommandFailure("At \(record.address) there is another database than the one that was added.")
        }
        if shared.options.migrates { _ = try connection.migrate() } else { try connection.checkSchema() }
    }

    // MARK: The thread

    /// Works until it is stopped.
    func run() {
        while true {
            let hasAwaited = state.withLock { !$0.awaited.isEmpty }
            let isStopping = state.wait(milliseconds: hasAwaited ? Self.retryMilliseconds : nil) { state -> Bool? in
                guard state.isNews || state.isStopping else { return nil }
                state.isNews = false
                return state.isStopping
            }
            if isStopping == true { return }
            startAwaited()
        }
    }

    /// Starts no more.
    func stop() { state.broadcast { $0.isStopping = true } }
}
