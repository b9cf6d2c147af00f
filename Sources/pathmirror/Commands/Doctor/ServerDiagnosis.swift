import LogStore
import Runtime

/// Judges a PostgreSQL server by its settings and state. Pure.
enum ServerDiagnosis {
    /// - Parameters:
    ///   - machineMilliseconds: this machine's clock halfway between request and response.
    ///   - connectionsEach: how many connections a gateway with these settings opens.
    static func findings(
        _ facts: ServerFacts, machineMilliseconds: Milliseconds, connectionsEach: Int, gateways: Int64
    ) -> [Finding] {
        version(facts) + durability(facts) + sessions(facts) + clock(facts, machineMilliseconds)
            + connections(facts, each: connectionsEach, gateways: gateways)
    }

    private static func version(_ facts: ServerFacts) -> [Finding] {
        var found: [Finding] = []
        if facts.versionNumber < 150_000 {
            found.append(
                .problem(
                    "postgresql.version", "PostgreSQL is \(facts.version); 15 or newer is needed",
                    fix: "upgrade the server"))
        } else {
            found.append(.ok("postgresql.version", "PostgreSQL \(facts.version)"))
        }
        if facts.isStandby {
            found.append(
                .problem(
                    "postgresql.standby", "the server is a read-only standby",
                    fix:
                        "connect to the primary (several hosts and target_session_attrs=read-write in the URL), or promote it"
                ))
        }
        if facts.encoding != "UTF8" {
            found.append(
                .problem(
                    "postgresql.encoding",
                    "the database's encoding is \(facts.encoding): some keys and texts can't be stored",
                    fix: "create a database with encoding UTF8, and import an export of this one"))
        }
        return found
    }

    private static func durability(_ facts: ServerFacts) -> [Finding] {
        var found: [Finding] = []
        for name in ["fsync", "full_page_writes"] where facts.settings[name] == "off" {
            found.append(
                .problem(
                    "postgresql.\(name)",
                    "\(name) is off: a power failure can lose acknowledged writes and corrupt the database",
                    fix:
                        "set \(name) = on in postgresql.conf and reload; rows written before may be damaged already"
                ))
        }
        for name in ["autovacuum", "track_counts"] where facts.settings[name] == "off" {
            found.append(
                .problem(
                    "postgresql.\(name)",
                    "\(name) is off: dead rows are never removed, and every read and write slows down",
                    fix: "set \(name) = on in postgresql.conf and reload"))
        }
        if found.isEmpty { found.append(.ok("postgresql.durability", "fsync, full_page_writes and autovacuum are on")) }
        return found
    }

    private static func sessions(_ facts: ServerFacts) -> [Finding] {
        var found: [Finding] = []
        if !facts.isDirect {
            found.append(
                .warning(
                    "postgresql.pooler", "a connection pooler between this program and PostgreSQL shares connections",
                    fix: "pool by session, not by transaction: LISTEN and prepared statements need a session"))
        }
        if facts.settings["default_transaction_read_only"] == "on" {
            found.append(
                .problem(
                    "postgresql.read_only", "transactions of \(facts.user) are read-only",
                    fix: "set default_transaction_read_only = off for the role and the database"))
        }
        if let level = facts.settings["default_transaction_isolation"], level != "read committed" {
            found.append(
                .warning(
                    "postgresql.isolation",
                    "transactions of \(facts.user) are \(level): concurrent writers fail and retry",
                    fix: "set default_transaction_isolation = 'read committed' for the role"))
        }
        if facts.isSuperuser {
            found.append(
                .note(
                    "postgresql.superuser", "\(facts.user) is a superuser, which no gateway needs",
                    fix: "serve as a member of pathmirror_gateway with --no-migrate (docs/guides/roles.md)"))
        }
        if !facts.seesAllSessions {
            found.append(
                .note(
                    "postgresql.monitor",
                    "session checks skipped: \(facts.user) lacks pg_monitor",
                    fix: "grant pg_monitor to \(facts.user)"))
        }
        return found
    }

    private static func clock(_ facts: ServerFacts, _ machine: Milliseconds) -> [Finding] {
        let ahead = facts.clockMilliseconds - machine
        let text = "the server's clock is \(abs(ahead)) ms \(ahead < 0 ? "behind" : "ahead of") this machine's"
        let fix = "synchronize both with a time server (chrony, systemd-timesyncd)"
        // Gateways check tokens by their own clock. Times of entries and `{".sv": "timestamp"}` use the server's clock.
        if abs(ahead) > 60_000 { return [.problem("clock.server", text, fix: fix)] }
        if abs(ahead) > 1_000 { return [.warning("clock.server", text, fix: fix)] }
        return [.ok("clock.server", text)]
    }

    private static func connections(_ facts: ServerFacts, each: Int, gateways: Int64) -> [Finding] {
        let reserved = facts.isSuperuser ? 0 : facts.number("superuser_reserved_connections") ?? 0
        var most = (facts.number("max_connections") ?? 100) - reserved
        for limit in [facts.userConnectionLimit, facts.databaseConnectionLimit] where limit >= 0 {
            most = min(most, limit)
        }
        let needed = Int64(each) * max(1, gateways)
        let text =
            "PostgreSQL allows \(most) connections, \(facts.connections) are open; a gateway with these settings opens up to \(each), and one for each mirror"
        if needed > most {
            return [
                .problem(
                    "postgresql.connections", text,
                    fix: "raise max_connections (or the role's or database's limit) to \(needed + 20) or more")
            ]
        }
        if facts.connections * 10 > most * 9 {
            return [
                .warning(
                    "postgresql.connections", text,
                    fix: "raise max_connections, or find the clients with most connections")
            ]
        }
        return [.ok("postgresql.connections", text)]
    }
}
