import CPostgres
import Glibc

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
