import Postgres

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
