import LogStore
public import Postgres

/// Opens connections to the databases with mirrors' tables.
public struct TargetConnector: Sendable {
    private let url: PostgresURL
    private let settings: PostgresConnectionSettings
    private let environment: [String: String]

    /// - Parameters:
    ///   - url: the gateway's database.
    ///   - environment: for targets of the form `env:NAME`.
    public init(url: PostgresURL, settings: PostgresConnectionSettings, environment: [String: String]) {
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

    /// Opens a connection to a mirror's target, or to the gateway's own database if `target` is nil.
    public func connect(_ target: String?, as purpose: String) throws -> PostgresConnection {
        let connection = try PostgresConnection(
            try url(target).withApplicationName("pathmirror \(purpose)").requiringPrimary, settings: settings)
        if target != nil { try MirrorTargetSchema.make(connection) }
        return connection
    }
}

extension PostgresConnectionSettings {
    /// Settings for connections that read the tree for mirrors and write their tables. They wait for the server without a time
    /// limit.
    static var forMirrors: PostgresConnectionSettings {
        var settings = PostgresConnectionSettings()
        settings.statementTimeoutMilliseconds = 0
        // Statements get many keys at once. A plan cached while a table was small would scan the whole table each time.
        settings.sessionSettings["plan_cache_mode"] = "force_custom_plan"
        // Warnings report commits that no standby has received.
        settings.sessionSettings["client_min_messages"] = "warning"
        return settings
    }
}
