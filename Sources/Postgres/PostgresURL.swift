import CPostgres
import Glibc

/// The address of a PostgreSQL server and the login: a URI (`postgresql://user:password@host:port/db?sslmode=require`)
/// or a conninfo string (`host=/run/pg user=me dbname=db`), checked by libpq's own parser.
///
/// Contains a secret: its descriptions show user, host, port and database, but never a password. Omitted options come
/// from libpq's environment variables (`PGHOST`, `PGPASSFILE`, …) and defaults when a connection is opened.
public struct PostgresURL: Sendable, Equatable {
    /// Keywords and values with libpq's names, without empty values.
    private(set) var options: [String: String]

    /// Parses a connection string.
    ///
    /// - Throws: `invalidURL`. The message never repeats the text, which may contain a password.
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

    /// Creates the URL of a server on this machine, reached through the Unix socket in `socketDirectory`.
    public init(socketDirectory: String, port: Int = 5432, user: String, database: String) {
        options = ["host": socketDirectory, "port": "\(port)", "user": user, "dbname": database]
    }

    /// The database's name, if given.
    public var databaseName: String? { options["dbname"] }

    /// Whether the connection string itself contains a password, as opposed to a file or the environment.
    public var hasPassword: Bool { options["password"] != nil }

    /// Returns the URL of another database with the same server and login.
    public func withDatabase(_ name: String) -> PostgresURL {
        with("dbname", name)
    }

    /// The hosts or their addresses, if given; several are separated by commas.
    public var host: String? { options["host"] ?? options["hostaddr"] }
    /// The port, or as many as there are hosts, if given.
    public var port: String? { options["port"] }

    /// Returns a URL with the same login and another address.
    ///
    /// - Parameter port: nil for the default port.
    public func at(host: String, port: String?, database: String) -> PostgresURL {
        var copy = self
        copy.options["hostaddr"] = nil
        copy.options["host"] = host
        copy.options["port"] = port
        copy.options["dbname"] = database
        return copy
    }

    /// Returns this URL with the options of another one, which take precedence. If the other one has a user, the
    /// password and the certificate of this one are removed, because they authenticate this one's user.
    public func with(_ other: PostgresURL) -> PostgresURL {
        var copy = self
        if other.options["user"] != nil { for keyword in Self.proofKeywords { copy.options[keyword] = nil } }
        copy.options.merge(other.options) { _, theirs in theirs }
        return copy
    }

    /// Returns this URL with an application name, which appears in `pg_stat_activity`.
    public func withApplicationName(_ name: String) -> PostgresURL {
        with("application_name", name)
    }

    /// This URL restricted to a host that accepts writes, if there are several hosts. Unchanged if the text specifies
    /// `target_session_attrs`.
    public var requiringPrimary: PostgresURL {
        let count = max(Self.list(options["host"]).count, Self.list(options["hostaddr"]).count)
        guard count > 1, options["target_session_attrs"] == nil else { return self }
        return with("target_session_attrs", "read-write")
    }

    /// The URLs of the individual hosts, in order. Only this URL if there is a single host.
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

    /// Rejects strings in which libpq takes a part for another one, so that no piece of a password appears in a message
    /// about a host.
    private func check(_ text: String) throws(PostgresError) {
        let isURI = text.hasPrefix("postgresql://") || text.hasPrefix("postgres://")
        let authority = text.split(separator: "?", maxSplits: 1).first ?? ""
        if options["host"]?.contains("@") == true || isURI && options["user"] == nil && authority.contains("@") {
            throw PostgresError(.invalidURL, "the connection string has a misplaced @", hint: Self.hint)
        }
        let ports = options["port"]?.split(separator: ",") ?? []
        guard ports.allSatisfy({ UInt16($0).map { $0 > 0 } ?? false }) else {
            throw PostgresError(
                .invalidURL, "the connection string's port is not a number from 1 to 65535", hint: Self.hint)
        }
    }
}

extension PostgresURL {
    /// One server to try, and the number of remaining attempts, which determines its share of the time.
    struct Attempt {
        var options: [String: String]
        var attemptsLeft: Int
    }

    /// One attempt per host. In non-blocking mode, libpq itself tries the next host only after an error, not when a
    /// host is silent. The list is therefore split here, and each host gets its share of the time.
    var attempts: [Attempt] {
        let lists = ["host", "hostaddr", "port"].map { Self.list(options[$0]) }
        let count = max(lists[0].count, lists[1].count)
        guard count > 1 else { return [Attempt(options: options, attemptsLeft: 1)] }
        // "prefer-standby" means any standby first, then any server.
        let passes = options["target_session_attrs"] == "prefer-standby" ? ["standby", "any"] : [nil]
        var attempts: [Attempt] = []
        for pass in passes {
            for index in 0..<count {
                var single = options
                for (keyword, values) in zip(["host", "hostaddr", "port"], lists) {
                    // A single port applies to all hosts.
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
    /// `user@host:port/database`, as far as specified.
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
    /// libpq's environment variables and defaults for the address and TLS, used for options that a connection string
    /// omits. Does not contain a password.
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

    /// Returns the hosts of this URL that would be reached over a network without verifying their identity. An attacker
    /// on the network could impersonate them, and read and change everything. Unix sockets and this machine's addresses
    /// are not included. Does no lookups and opens no connections.
    public func unverifiedHosts(defaults: [String: String] = PostgresURL.libraryDefaults) -> [String] {
        guard !verifies(defaults) else { return [] }
        let names = Self.list(options["host"] ?? defaults["host"])
        let addresses = Self.list(options["hostaddr"] ?? defaults["hostaddr"])
        return (0..<max(names.count, addresses.count)).compactMap { index in
            let name = index < names.count ? names[index] : ""
            let address = index < addresses.count ? addresses[index] : ""
            // If both are given, libpq connects to the address.
            let target = address.isEmpty ? name : address
            return Self.isOnThisMachine(target) ? nil : name.isEmpty ? address : name
        }
    }

    /// Returns the effective `sslmode`: `prefer`, `verify-full`, …
    public func sslMode(defaults: [String: String] = PostgresURL.libraryDefaults) -> String {
        options["sslmode"] ?? defaults["sslmode"] ?? "prefer"
    }

    private func verifies(_ defaults: [String: String]) -> Bool {
        // libpq uses the system's authorities only with full verification.
        if (options["sslrootcert"] ?? defaults["sslrootcert"]) == "system", options["sslmode"] == nil { return true }
        return ["verify-full", "verify-ca"].contains(sslMode(defaults: defaults))
    }

    private static let networkKeywords: Set<String> = ["host", "hostaddr", "sslmode", "sslrootcert"]

    private static func isOnThisMachine(_ target: String) -> Bool {
        // An empty name is the default socket. `/` begins the folder of a socket, `@` an abstract socket.
        guard let first = target.first, first != "/", first != "@" else { return true }
        let name = target.lowercased()
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
