import LogStore
public import Postgres

/// Connections to the databases in which mirrors' tables are.
public struct TargetConnector: Sendable {
    private let url: PostgresURL
    private let settings: ConnectionSettings
    private let environment: [String: String]

    /// - Parameters:
    ///   - url: the gateway's database.
    ///   - environment: for targets of the form `env:NAME`.
    public init(url: PostgresURL, settings: ConnectionSettings, environment: [String: String]) {
        self.url = url
        self.settings = settings
        self.environment = environment
    }

    /// - Parameter target: a URL or `env:NAME`; nil for the gateway's database.
    public func url(_ target: String?) throws -> PostgresURL {
        guard let target else { return url }
        guard target.hasPrefix("env:") else { return try PostgresURL(target) }
        let name = String(target.dropFirst(4))
        guard let text = environment[name] else {
            throw MirrorError.refused("The mirror's target is in the environment variable \(name), which is not set.")
        }
        return try PostgresURL(text)
    }

    /// Opens a connection to a mirror's target; nil is the gateway's own database.
    public func connect(_ target: String?, as purpose: String) throws -> PostgresConnection {
        let connection = try PostgresConnection(
            try url(target).withApplicationName("pathmirror \(purpose)").requiringPrimary, settings: settings)
        if target != nil { try MirrorTargetSchema.make(connection) }
        return connection
    }
}

extension ConnectionSettings {
    /// For connections that read the tree for mirrors, and write their tables. They may wait long for the server.
    static var forMirrors: ConnectionSettings {
        var settings = ConnectionSettings()
        settings.statementTimeoutMilliseconds = 0
        // Statements take many keys at once. A plan that was kept from the time when a table was small would go through
        // all of it each time.
        settings.sessionSettings["plan_cache_mode"] = "force_custom_plan"
        // Without warnings nobody would hear of a commit that no standby has.
        settings.sessionSettings["client_min_messages"] = "warning"
        return settings
    }
}
