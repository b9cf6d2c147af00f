import Engine
import Feeds
import Glibc
import LogStore
import Postgres
import Runtime

/// Collects from a database everything that `doctor` judges. A failed query becomes a finding, and the others still run.
struct DatabaseVisit {
    let url: PostgresURL
    private let options: ServiceOptions?
    private let hasRulesFile: Bool
    private let interruption: Interruption

    /// - Parameter interruption: cancels the queries.
    /// - Throws: if no database is named.
    init(_ arguments: ParsedArguments, _ options: ServiceOptions?, _ interruption: Interruption) throws {
        self.interruption = interruption
        url = try DatabaseLocator.url(arguments, of: .primary)
        self.options = options
        hasRulesFile = options?.hasRulesFile ?? (arguments["rules"] != nil)
    }

    /// Collects the same facts from another database.
    init(_ other: DatabaseVisit, at url: PostgresURL) {
        self.url = url
        options = other.options
        interruption = other.interruption
        hasRulesFile = other.hasRulesFile
    }

    static let reachable = "postgresql.reachable"

    func findings() -> [Finding] {
        var found: [Finding] = []
        let hosts = url.unverifiedHosts()
        if !hosts.isEmpty {
            found.append(
                .warning(
                    "settings.sslmode",
                    "the connection to PostgreSQL (\(hosts.joined(separator: ", "))) crosses a network and does not verify the server",
                    fix: "set sslmode=verify-full and sslrootcert=FILE in --database-url"))
        }
        let connection: LogConnection
        do {
            connection = try connect()
        } catch {
            let fix = "check that it runs, the URL, and pg_hba.conf"
            return found + [.problem(Self.reachable, "the database can't be reached: \(error)", fix: fix)]
        }
        defer { connection.close() }
        return found + ask(connection)
    }

    /// Opens a session with a statement timeout.
    func connect() throws(LogStoreError) -> LogConnection {
        var settings = LogConnection.Settings()
        settings.connection.statementTimeoutMilliseconds = 30_000
        let connection = try LogConnection(url.withApplicationName("pathmirror doctor"), settings: settings)
        interruption.stops(connection.cancelHandle)
        return connection
    }

    private func ask(_ connection: LogConnection) -> [Finding] {
        var found: [Finding] = []
        let hasSchema = schema(connection, &found)
        let work = hasSchema ? attempt("work", &found) { () throws in try connection.workFacts() } : nil
        let before = Clock.unixMilliseconds
        let server = attempt("postgresql", &found) { () throws in try connection.serverFacts() }
        let middle = (before + Clock.unixMilliseconds) / 2
        if let server {
            found += ServerDiagnosis.findings(
                server, machineMilliseconds: middle, connectionsEach: connectionsEach, gateways: work?.liveGateways ?? 0
            )
            let replication = attempt("replication", &found) { () throws in try connection.replicationFacts() }
            if let replication { found += ReplicationDiagnosis.findings(replication, server) }
        }
        let longest = DatabaseDiagnosis.longTransactionSeconds
        let activity = attempt("activity", &found) { () throws in
            try connection.activityFacts(longerThanSeconds: longest)
        }
        if let activity { found += DatabaseDiagnosis.activity(activity) }
        if let gateways = attempt("gateways", &found, { () throws in try connection.gatewayFacts() }) {
            found += WorkDiagnosis.programs(gateways, this: VersionCommand.program)
        }
        if let rights = attempt("rights", &found, { () throws in try connection.rightsFacts() }) {
            found += DatabaseDiagnosis.rights(rights, server?.user ?? "the user")
        }
        guard hasSchema else { return found }
        if let storage = attempt("storage", &found, { () throws in try connection.storageFacts() }) {
            found += DatabaseDiagnosis.storage(storage, freeBytes: Self.freeBytes(storage))
        }
        if let work { found += WorkDiagnosis.findings(work, hasRulesFile: hasRulesFile) }
        let lockSeconds = WorkDiagnosis.longLockSeconds
        let locks = attempt("mirror locks", &found) { () throws in
            try connection.mirrorLockFacts(longerThanSeconds: lockSeconds)
        }
        if let locks { found += WorkDiagnosis.mirrorLocks(locks) }
        if let mistakes = attempt("expressions", &found, { () throws in try StoredExpressions.mistakes(connection) }) {
            found += StoredExpressions.findings(mistakes)
        }
        return found
    }

    /// Returns whether the schema has this program's version, so that its tables can be read.
    private func schema(_ connection: LogConnection, _ found: inout [Finding]) -> Bool {
        do {
            try connection.checkSchema()
            found.append(
                .ok(
                    "schema.version",
                    "the schema has version \(Migrations.newest), as pathmirror \(VersionCommand.version) needs"))
            return true
        } catch {
            found.append(
                .problem("schema.version", "\(error)", fix: "'pathmirror migrate status' lists the missing migrations"))
            return false
        }
    }

    private func attempt<Facts>(_ subject: String, _ found: inout [Finding], _ read: () throws -> Facts) -> Facts? {
        do {
            return try read()
        } catch {
            found.append(
                .problem("\(subject).asked", "check skipped: \(subject): \(error)", fix: "grant the user the right to")
            )
            return nil
        }
    }

    /// The connections that a gateway opens (docs/reference/gateway.md), without one for each mirror that it runs.
    private var connectionsEach: Int {
        let engine = options?.engine ?? EngineSettings()
        let feeds = options?.feeds ?? FeedSettings()
        // Tail, resuming streams, sessions, large writes, watch; mirrors' watch; feeds' watch, writer, reads, changes, trees; retention; followers.
        return engine.committers + engine.logReaders + engine.loaders + feeds.readers + 13
    }

    private static func freeBytes(_ facts: StorageFacts) -> Int64? {
        guard facts.isOnThisMachine, let directory = facts.dataDirectory else { return nil }
        var system = statvfs()
        guard statvfs(directory, &system) == 0 else { return nil }
        return Int64(clamping: UInt64(system.f_bavail) &* UInt64(system.f_frsize))
    }
}
