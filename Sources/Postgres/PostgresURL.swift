import CPostgres
import Glibc

/// Where a PostgreSQL is and how to log in: a URI (`postgresql://user:password@host:port/db?sslmode=require`) or a
/// conninfo string (`host=/run/pg user=me dbname=db`), checked by libpq's own parser.
///
/// Holds a secret: its descriptions show user, host, port and database, never a password. What is left out comes from
/// libpq's environment variables (`PGHOST`, `PGPASSFILE`, …) and defaults when a connection is made.
public struct PostgresURL: Sendable, Equatable {
    /// Keywords and values as libpq names them; empty values left out.
    private(set) var options: [String: String]

    /// - Throws: `invalidURL`. The message never repeats the text, as it may hold a password.
    public init(_ text: String) throws(PostgresError) {
        guard !text.utf8.contains(0) else {
            throw PostgresError(.invalidURL, "the connection string holds U+0000")
        }
        var message: UnsafeMutablePointer<CChar>?
        guard let parsed = PQconninfoParse(text, &message) else {
            PQfreemem(message)
            throw PostgresError(
                .invalidURL, "the connection string is neither a PostgreSQL URI nor a conninfo string", hint: Self.hint)
        }
        defer { PQconninfoFree(parsed) }
        options = [:]
        var option = parsed
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val, value[0] != 0 {
                options[String(cString: keyword)] = String(cString: value)
            }
            option += 1
        }
        try check(text)
    }

    /// A server on this machine, reached through the Unix socket in `socketDirectory`.
    public init(socketDirectory: String, port: Int = 5432, user: String, database: String) {
        options = ["host": socketDirectory, "port": "\(port)", "user": user, "dbname": database]
    }

    /// The database's name, if given.
    public var databaseName: String? { options["dbname"] }

    /// Whether a password is in the text itself, and not in a file or the environment.
    public var hasPassword: Bool { options["password"] != nil }

    /// The same server and login, but another database.
    public func withDatabase(_ name: String) -> PostgresURL {
        with("dbname", name)
    }

    /// The hosts or their addresses, if given; several are separated by commas.
    public var host: String? { options["host"] ?? options["hostaddr"] }
    /// The port, or as many as there are hosts, if given.
    public var port: String? { options["port"] }

    /// The same login, at another place.
    ///
    /// - Parameter port: nil for the default one.
    public func at(host: String, port: String?, database: String) -> PostgresURL {
        var copy = self
        copy.options["hostaddr"] = nil
        copy.options["host"] = host
        copy.options["port"] = port
        copy.options["dbname"] = database
        return copy
    }

    /// The same with everything that another one says. Where that names a user, nothing is left of what this one proves its own
    /// user by: neither a password nor a certificate.
    public func with(_ other: PostgresURL) -> PostgresURL {
        var copy = self
        if other.options["user"] != nil { for keyword in Self.proofKeywords { copy.options[keyword] = nil } }
        copy.options.merge(other.options) { _, theirs in theirs }
        return copy
    }

    /// The same, showing as `name` in `pg_stat_activity`.
    public func withApplicationName(_ name: String) -> PostgresURL {
        with("application_name", name)
    }

    /// The same, but of several hosts only one that takes writes will do, unless the text itself says which will
    /// (`target_session_attrs`).
    public var requiringPrimary: PostgresURL {
        let count = max(Self.list(options["host"]).count, Self.list(options["hostaddr"]).count)
        guard count > 1, options["target_session_attrs"] == nil else { return self }
        return with("target_session_attrs", "read-write")
    }

    /// The same for each host alone, in their order; this one where there is only one.
    public var eachHost: [PostgresURL] {
        var found: [PostgresURL] = []
        for attempt in attempts {
            var copy = self
            copy.options = attempt.options
            if !found.contains(copy) { found.append(copy) }
        }
        return found
    }

    private func with(_ keyword: String, _ value: String) -> PostgresURL {
        var copy = self
        copy.options[keyword] = value
        return copy
    }

    private static let proofKeywords = [
        "password", "passfile", "sslcert", "sslkey", "sslpassword", "scram_client_key", "scram_server_key",
        "oauth_client_secret",
    ]

    private static let hint =
        "percent-encode characters such as @ : / ? # and % in the user name and the password of a URI"

    /// Catches what libpq takes for another part, so that no piece of a password ends up in a message about a host.
    private func check(_ text: String) throws(PostgresError) {
        let isURI = text.hasPrefix("postgresql://") || text.hasPrefix("postgres://")
        let authority = text.split(separator: "?", maxSplits: 1).first ?? ""
        if options["host"]?.contains("@") == true || isURI && options["user"] == nil && authority.contains("@") {
            throw PostgresError(.invalidURL, "the connection string has an @ in the wrong place", hint: Self.hint)
        }
        let ports = options["port"]?.split(separator: ",") ?? []
        guard ports.allSatisfy({ UInt16($0).map { $0 > 0 } ?? false }) else {
            throw PostgresError(
                .invalidURL, "the connection string's port is not a number from 1 to 65535", hint: Self.hint)
        }
    }
}

extension PostgresURL {
    /// One server to try, and which part of the remaining time it may take.
    struct Attempt {
        var options: [String: String]
        var attemptsLeft: Int
    }

    /// One attempt a host. libpq itself would go to the next host only when one answers with an error, not when it is
    /// silent, unless it may block: so the list is taken apart here, and each host gets its share of the deadline.
    var attempts: [Attempt] {
        let lists = ["host", "hostaddr", "port"].map { Self.list(options[$0]) }
        let count = max(lists[0].count, lists[1].count)
        guard count > 1 else { return [Attempt(options: options, attemptsLeft: 1)] }
        // "prefer-standby" means: any standby first, then anything.
        let passes = options["target_session_attrs"] == "prefer-standby" ? ["standby", "any"] : [nil]
        var attempts: [Attempt] = []
        for pass in passes {
            for index in 0..<count {
                var single = options
                for (keyword, values) in zip(["host", "hostaddr", "port"], lists) {
                    // A single port serves all hosts.
                    let value = values.count == 1 ? values[0] : index < values.count ? values[index] : ""
                    single[keyword] = value.isEmpty ? nil : value
                }
                single["target_session_attrs"] = pass ?? single["target_session_attrs"]
                let left = passes.count * count - attempts.count
                attempts.append(Attempt(options: single, attemptsLeft: left))
            }
        }
        return attempts
    }

    static func list(_ text: String?) -> [String] {
        text?.split(separator: ",", omittingEmptySubsequences: false).map(String.init) ?? []
    }
}

extension PostgresURL: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// `user@host:port/database`, as far as given.
    public var description: String {
        var text = options["user"].map { $0 + "@" } ?? ""
        text += options["host"] ?? options["hostaddr"] ?? ""
        text += options["port"].map { ":" + $0 } ?? ""
        text += "/" + (options["dbname"] ?? "")
        return text
    }

    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension PostgresURL {
    /// What libpq does where a connection string says nothing: what its environment variables and defaults say of where to
    /// connect and how. No password is among it.
    public static var libraryDefaults: [String: String] {
        var values: [String: String] = [:]
        guard let defaults = PQconndefaults() else { return values }
        defer { PQconninfoFree(defaults) }
        var option = defaults
        while let keyword = option.pointee.keyword.map({ String(cString: $0) }) {
            if networkKeywords.contains(keyword), let value = option.pointee.val, value[0] != 0 {
                values[keyword] = String(cString: value)
            }
            option += 1
        }
        return values
    }

    /// The hosts of this URL that would be reached over a network without being asked to prove who they are: whoever is on
    /// the way could answer in their place, and read and change everything. Unix sockets and this machine's addresses
    /// are not among them. Nothing is looked up and nobody is connected to.
    public func unverifiedHosts(defaults: [String: String] = PostgresURL.libraryDefaults) -> [String] {
        guard !verifies(defaults) else { return [] }
        let names = Self.list(options["host"] ?? defaults["host"])
        let addresses = Self.list(options["hostaddr"] ?? defaults["hostaddr"])
        return (0..<max(names.count, addresses.count)).compactMap { index in
            let name = index < names.count ? names[index] : ""
            let address = index < addresses.count ? addresses[index] : ""
            // Where both are given, the address is where it connects to.
            let place = address.isEmpty ? name : address
            return Self.isOnThisMachine(place) ? nil : name.isEmpty ? address : name
        }
    }

    /// How the server would be checked: `prefer`, `verify-full`, …
    public func sslMode(defaults: [String: String] = PostgresURL.libraryDefaults) -> String {
        options["sslmode"] ?? defaults["sslmode"] ?? "prefer"
    }

    private func verifies(_ defaults: [String: String]) -> Bool {
        // The system's authorities are only ever asked with everything checked.
        if (options["sslrootcert"] ?? defaults["sslrootcert"]) == "system", options["sslmode"] == nil { return true }
        return ["verify-full", "verify-ca"].contains(sslMode(defaults: defaults))
    }

    private static let networkKeywords: Set<String> = ["host", "hostaddr", "sslmode", "sslrootcert"]

    private static func isOnThisMachine(_ place: String) -> Bool {
        // Nothing is the default socket; `/` begins the folder of one, `@` an abstract one.
        guard let first = place.first, first != "/", first != "@" else { return true }
        let name = place.lowercased()
        if name == "localhost" || name.hasSuffix(".localhost") { return true }
        var four = in_addr()
        if inet_pton(AF_INET, name, &four) == 1 { return UInt32(bigEndian: four.s_addr) >> 24 == 127 }
        var six = in6_addr()
        guard inet_pton(AF_INET6, name, &six) == 1 else { return false }
        return withUnsafeBytes(of: six) { bytes in
            let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
            return isMapped ? bytes[12] == 127 : bytes[..<15].allSatisfy { $0 == 0 } && bytes[15] == 1
        }
    }
}
