import CPostgres
import Glibc

extension PostgresLink {
    /// Opens a connection. Tries each host in turn until one accepts the login.
    static func open(
        _ url: PostgresURL, _ settings: PostgresConnectionSettings, _ interrupt: Interrupt
    ) throws(PostgresError) -> PostgresLink {
        let deadline = Deadline(afterMilliseconds: settings.connectTimeoutMilliseconds)
        var failures: [PostgresError] = []
        for attempt in url.attempts {
            do throws(PostgresError) {
                let part = deadline.firstPart(of: attempt.attemptsLeft)
                return try open(attempt.options, settings, interrupt, until: part)
            } catch {
                guard error.kind == .connect || error.kind == .timeout else { throw error }
                failures.append(error)
            }
        }
        guard var error = failures.last else {
            throw PostgresError(.connect, "the connection string names no host")
        }
        if failures.count > 1 {
            error.message = failures.map(\.message).joined(separator: "; ")
        }
        // The connection was not established, so no statement has been sent, regardless of the failure.
        error.isSilentConnect = failures.contains { $0.kind == .timeout }
        error.kind = .connect
        throw error
    }

    private static func open(
        _ given: [String: String], _ settings: PostgresConnectionSettings, _ interrupt: Interrupt,
        until deadline: Deadline
    ) throws(PostgresError) -> PostgresLink {
        var options = defaults(settings)
        options.merge(given) { _, given in given }
        // Text is UTF-8, regardless of the environment.
        options["client_encoding"] = "UTF8"
        guard let connection = start(options) else {
            throw PostgresError(.connect, "out of memory")
        }
        let link = PostgresLink(connection, interrupt: interrupt)
        // Until the first poll, libpq must be treated as if it had requested writing.
        var wanted = POLLOUT
        while PQstatus(connection) != CONNECTION_BAD {
            do throws(PostgresError) {
                _ = try link.wait(wanted, until: deadline)
            } catch  where error.kind == .timeout {
                throw PostgresError(.timeout, "no answer in time from \(address(options))")
            }
            switch PQconnectPoll(connection) {
            case PGRES_POLLING_READING: wanted = POLLIN
            case PGRES_POLLING_WRITING: wanted = POLLOUT
            case PGRES_POLLING_OK:
                guard PQsetnonblocking(connection, 1) == 0 else { throw PostgresError(.connect, link.message) }
                return link
            default: throw PostgresError(.connect, link.message)
            }
        }
        throw PostgresError(.connect, link.message)
    }

    private static func defaults(_ settings: PostgresConnectionSettings) -> [String: String] {
        var options = ["fallback_application_name": "pathmirror", "keepalives": "1"]
        if settings.keepaliveIdleSeconds > 0 {
            options["keepalives_idle"] = "\(settings.keepaliveIdleSeconds)"
            options["keepalives_interval"] = "\(settings.keepaliveIntervalSeconds)"
            options["keepalives_count"] = "\(settings.keepaliveCount)"
        }
        if settings.tcpUserTimeoutMilliseconds > 0 {
            options["tcp_user_timeout"] = "\(settings.tcpUserTimeoutMilliseconds)"
        }
        return options
    }

    private static func address(_ options: [String: String]) -> String {
        let host = options["host"] ?? options["hostaddr"] ?? "the default host"
        return host + (options["port"].map { ":" + $0 } ?? "")
    }

    private static func start(_ options: [String: String]) -> OpaquePointer? {
        let pairs = options.map { (strdup($0.key), strdup($0.value)) }
        defer {
            for (keyword, value) in pairs {
                free(keyword)
                free(value)
            }
        }
        let keywords = pairs.map { UnsafePointer($0.0) } + [nil]
        let values = pairs.map { UnsafePointer($0.1) } + [nil]
        return PQconnectStartParams(keywords, values, 0)
    }
}
