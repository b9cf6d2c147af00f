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
        var place: FeedEndpoint?
        /// What the log has said last of each that can't be used: what stays so is not said again.
        var told: [String: String] = [:]
        var isNews = false
        /// All that the home named at the start have been tried once.
        var hasTried = false
        var isStopping = false
        /// Of the connection by which one is being prepared.
        var preparing: PostgresCancelHandle?
    }
    private let shared: DatabaseServices.Shared
    private let home: PostgresURL
    private let databases: Databases
    private let state = Condition(State())
    private static let retryMilliseconds: Milliseconds = 2_000
    /// So long connecting takes at most: other databases wait.
    private static let connectMilliseconds: Milliseconds = 3_000
    /// So long it may be silent when it is asked which one it is.
    private static let silenceMilliseconds: Milliseconds = 5_000
    /// So long a migration waits for a lock, such as that of another gateway that migrates; it is tried again.
    private static let lockMilliseconds: Milliseconds = 2_000

    init(_ shared: DatabaseServices.Shared, home: PostgresURL, _ databases: Databases) {
        self.shared = shared
        self.home = home
        self.databases = databases
    }

    /// The services of all databases but the home.
    var others: [DatabaseServices] { state.withLock { Array($0.started.values) } }

    /// The home names these.
    func found(_ records: [DatabaseRecord]) {
        // Those that are still being tried are named as well.
        databases.await(records.map(\.name))
        let withdrawn = state.broadcast { state in
            state.isNews = true
            // One that runs under another name would have everything twice.
            let running = Set(state.started.values.compactMap { $0.record?.installation })
            state.awaited = records.filter { !running.contains($0.installation) && state.started[$0.name] == nil }
            let named = Set(records.map { [$0.name, $0.installation] })
            return Set(state.started.filter { !named.contains([$0.key, $0.value.record?.installation ?? ""]) }.keys)
        }
        for name in databases.withdraw(withdrawn) {
            shared.options.logger.notice(
                "a database is not one of the home's any more: its namespaces are not served, and it may be added again once this gateway was restarted",
                [("database", name)])
        }
        for record in records { warnWhereMoved(record) }
    }

    /// What runs already goes on where it is.
    private func warnWhereMoved(_ record: DatabaseRecord) {
        let isNew = state.withLock { state -> Bool in
            guard let known = state.started[record.name]?.record, known.address != record.address else { return false }
            return state.told.updateValue(record.address, forKey: record.name) != record.address
        }
        guard isNew else { return }
        shared.options.logger.error(
            "a database is somewhere else now: this gateway goes on with the old address until it is restarted",
            [("database", record.name), ("address", record.address)])
    }

    /// The gateway listens: from now on feeds are worked here.
    func begin(at place: FeedEndpoint) {
        let started = state.withLock { state in
            state.place = place
            return Array(state.started.values)
        }
        for services in started { services.feeds.begin(at: place) }
    }

    /// Waits until all that are known have been started, or can't be for now; at most so long.
    func waitUntilTried(milliseconds: Milliseconds) {
        _ = state.wait(milliseconds: milliseconds) { state in state.hasTried ? true : nil }
    }

    /// Starts those that can be.
    private func startAwaited() {
        for record in state.withLock({ $0.awaited }) {
            if isStopping { return }
            do {
                try start(record)
            } catch {
                // It was given up because of that.
                if isStopping { return }
                let reason = "\(error)"
                guard state.withLock({ $0.told.updateValue(reason, forKey: record.name) }) != reason else { continue }
                shared.options.logger.error(
                    "a database can't be used", [("database", record.name), ("error", reason)])
            }
        }
        state.broadcast { $0.hasTried = true }
    }

    private var isStopping: Bool { state.withLock { $0.isStopping } }

    private func start(_ record: DatabaseRecord) throws {
        let url = try shared.options.databaseLogins.url(of: record, home: home)
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
        if let place = state.withLock({ $0.place }) { services.feeds.begin(at: place) }
        shared.options.logger.notice(
            "database added", [("database", record.name), ("address", record.address)])
    }

    /// From now on it is one of the others. False when the program is stopping, as nobody else would stop it; and when the home has
    /// forgotten the database since, or has another one of that name.
    private func register(_ services: DatabaseServices, _ record: DatabaseRecord) -> Bool {
        state.withLock { state -> Bool in
            guard !state.isStopping,
                let index = state.awaited.firstIndex(where: {
                    $0.name == record.name && $0.installation == record.installation
                })
            else { return false }
            state.started[record.name] = services
            state.awaited.remove(at: index)
            state.told[record.name] = nil
            return true
        }
    }

    /// For a moment: the first requests should find it there.
    private func waitUntilConnected(_ engine: Engine) {
        let deadline = Clock.monotonicMilliseconds + Self.connectMilliseconds
        while !engine.health.isUp, !isStopping, Clock.monotonicMilliseconds < deadline {
            engine.waitUntilConnected(milliseconds: 50)
        }
    }

    /// Sees to it that it is the database that was added, with this program's schema.
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
        // The server is silent while it migrates.
        connection.statementTimeoutMilliseconds = migrationSilence
        _ = try connection.migrate()
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

    /// Starts no more, and gives up the one that is being prepared.
    func stop() {
        let preparing = state.broadcast { state -> PostgresCancelHandle? in
            state.isStopping = true
            return state.preparing
        }
        preparing?.abandon()
    }
}
