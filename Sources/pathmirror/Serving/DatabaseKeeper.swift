import Engine
import Feeds
import LogStore
import Placement
import Postgres
import Runtime

/// Starts the services for each database that the primary database names: at the start, and after one is added. Retries databases that
/// can't be reached, or that are not the recorded ones.
final class DatabaseKeeper: Sendable {
    private struct State: Sendable {
        /// Named databases that are not started yet.
        var awaited: [DatabaseRecord] = []
        var started: [String: DatabaseServices] = [:]
        var endpoint: FeedEndpoint?
        /// The last logged reason for each database that can't be used. An unchanged reason is not logged again.
        var reported: [String: String] = [:]
        var isNews = false
        /// Whether every database known at the start has been tried once.
        var hasTried = false
        var isStopping = false
        /// Cancels the session on which a database is being prepared.
        var preparing: PostgresCancelHandle?
    }
    private let shared: DatabaseServices.Shared
    private let primary: PostgresURL
    private let databases: Databases
    private let state = Condition(State())
    private static let retryMilliseconds: Milliseconds = 2_000
    /// The timeout of connecting. Other databases wait meanwhile.
    private static let connectMilliseconds: Milliseconds = 3_000
    /// The timeout of reading the identity of a database.
    private static let silenceMilliseconds: Milliseconds = 5_000
    /// The time that a migration waits for a lock, such as that of another gateway's migration. It is then retried.
    private static let lockMilliseconds: Milliseconds = 2_000

    init(_ shared: DatabaseServices.Shared, primary: PostgresURL, _ databases: Databases) {
        self.shared = shared
        self.primary = primary
        self.databases = databases
    }

    /// The services of all databases except the primary database.
    var others: [DatabaseServices] { state.withLock { Array($0.started.values) } }

    /// Takes the current list of databases from the primary database.
    func found(_ records: [DatabaseRecord]) {
        // Requests for namespaces of databases that are still being tried wait.
        databases.await(records.map(\.name))
        let withdrawn = state.broadcast { state in
            state.isNews = true
            // A database under two names would run all its work twice.
            let running = Set(state.started.values.compactMap { $0.record?.installation })
            state.awaited = records.filter { !running.contains($0.installation) && state.started[$0.name] == nil }
            let named = Set(records.map { [$0.name, $0.installation] })
            return Set(state.started.filter { !named.contains([$0.key, $0.value.record?.installation ?? ""]) }.keys)
        }
        for name in databases.withdraw(withdrawn) {
            shared.options.logger.notice(
                "a database was removed from the primary database's list: its namespaces are not served, and it can be added again after this gateway is restarted",
                [("database", name)])
        }
        for record in records { warnWhereMoved(record) }
    }

    /// Warns about a changed address. Running services keep the old one.
    private func warnWhereMoved(_ record: DatabaseRecord) {
        let isNew = state.withLock { state -> Bool in
            guard let known = state.started[record.name]?.record, known.address != record.address else { return false }
            return state.reported.updateValue(record.address, forKey: record.name) != record.address
        }
        guard isNew else { return }
        shared.options.logger.error(
            "a database has a new address: this gateway keeps the old one until it is restarted",
            [("database", record.name), ("address", record.address)])
    }

    /// Called once the gateway accepts requests: feeds run from now on.
    func begin(at endpoint: FeedEndpoint) {
        let started = state.withLock { state in
            state.endpoint = endpoint
            return Array(state.started.values)
        }
        for services in started { services.feeds.begin(at: endpoint) }
    }

    /// Waits until all known databases have been started or have failed once; up to the given time.
    func waitUntilTried(milliseconds: Milliseconds) {
        _ = state.wait(milliseconds: milliseconds) { state in state.hasTried ? true : nil }
    }

    /// Starts the databases that can be started.
    private func startAwaited() {
        for record in state.withLock({ $0.awaited }) {
            if isStopping { return }
            do {
                try start(record)
            } catch {
                // The stop canceled it.
                if isStopping { return }
                let reason = "\(error)"
                guard state.withLock({ $0.reported.updateValue(reason, forKey: record.name) }) != reason else {
                    continue
                }
                shared.options.logger.error(
                    "a database can't be used", [("database", record.name), ("error", reason)])
            }
        }
        state.broadcast { $0.hasTried = true }
    }

    private var isStopping: Bool { state.withLock { $0.isStopping } }

    private func start(_ record: DatabaseRecord) throws {
        let url = try shared.options.databaseLogins.url(of: record, primary: primary)
        try prepare(record, url)
        let services = try DatabaseServices(shared, url, number: databases.nextNumber, record: record)
        guard register(services, record) else {
            services.drain()
            services.engine.stop(milliseconds: 0)
            return services.stopMirrors()
        }
        waitUntilConnected(services.engine)
        databases.add(
            Databases.Member(
                number: services.engine.database, name: record.name, engine: services.engine, feeds: services.feeds))
        if let endpoint = state.withLock({ $0.endpoint }) { services.feeds.begin(at: endpoint) }
        shared.options.logger.notice(
            "database added", [("database", record.name), ("address", record.address)])
    }

    /// Adds a started database. Returns false if the program is stopping, because the services would not be stopped; and if the primary
    /// database has removed the database since, or has replaced it by another one of that name.
    private func register(_ services: DatabaseServices, _ record: DatabaseRecord) -> Bool {
        state.withLock { state -> Bool in
            guard !state.isStopping,
                let index = state.awaited.firstIndex(where: {
                    $0.name == record.name && $0.installation == record.installation
                })
            else { return false }
            state.started[record.name] = services
            state.awaited.remove(at: index)
            state.reported[record.name] = nil
            return true
        }
    }

    /// Waits a moment, so that the first requests find a connected engine.
    private func waitUntilConnected(_ engine: Engine) {
        let deadline = Clock.monotonicMilliseconds + Self.connectMilliseconds
        while !engine.health.isUp, !isStopping, Clock.monotonicMilliseconds < deadline {
            engine.waitUntilConnected(milliseconds: 50)
        }
    }

    /// Checks that the database is the recorded one, and that it has this program's schema.
    private func prepare(_ record: DatabaseRecord, _ url: PostgresURL) throws {
        DatabaseWarning.log(url, shared.options.logger)
        var settings = shared.options.connection
        let migrationSilence = settings.connection.statementTimeoutMilliseconds
        settings.connection.connectTimeoutMilliseconds = Self.connectMilliseconds
        settings.connection.statementTimeoutMilliseconds = Self.silenceMilliseconds
        settings.connection.sessionSettings["lock_timeout"] = "\(Self.lockMilliseconds)"
        let connection = try LogConnection(url.withApplicationName("pathmirror start"), settings: settings)
        let handle = connection.cancelHandle
        let isStopping = state.withLock { state -> Bool in
            state.preparing = handle
            return state.isStopping
        }
        if isStopping { handle.abandon() }
        defer {
            state.withLock { $0.preparing = nil }
            connection.close()
        }
        try connection.check(is: record)
        guard shared.options.migrates else { return try connection.checkSchema() }
        // The server sends nothing during a migration.
        connection.statementTimeoutMilliseconds = migrationSilence
        _ = try connection.migrate()
    }

    // MARK: The thread

    /// Runs until `stop`.
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

    /// Starts no more databases, and cancels the one that is being prepared.
    func stop() {
        let preparing = state.broadcast { state -> PostgresCancelHandle? in
            state.isStopping = true
            return state.preparing
        }
        preparing?.abandon()
    }
}
