import Glibc

/// The location of PostgreSQL's server programs.
struct PostgresBinaries: Equatable {
    var directory: String
    var majorVersion: Int

    var initdb: String { directory + "/initdb" }
    var postgres: String { directory + "/postgres" }

    static let oldestMajorVersion = 15

    /// Returns the newest installation, or the one that matches an existing cluster.
    ///
    /// - Parameter existing: the major version of the cluster, if there is one.
    static func find(existing: Int?, searchPath: String? = nil) throws(ClusterError) -> PostgresBinaries {
        let found = installations(searchPath ?? getenv("PATH").map { String(cString: $0) } ?? "")
        return try choose(found, existing: existing)
    }

    /// Chooses one of the installations. Pure.
    static func choose(_ found: [PostgresBinaries], existing: Int?) throws(ClusterError) -> PostgresBinaries {
        if let existing {
            guard let match = found.first(where: { $0.majorVersion == existing }) else {
                let have = found.isEmpty ? "none" : found.map { "\($0.majorVersion)" }.joined(separator: ", ")
                throw ClusterError(
                    .notInstalled,
                    "the data directory belongs to PostgreSQL \(existing), which is not installed (found: \(have)): "
                        + "install the Debian package postgresql-\(existing)")
            }
            return match
        }
        let usable = found.filter { $0.majorVersion >= oldestMajorVersion }
        guard let newest = usable.max(by: { $0.majorVersion < $1.majorVersion }) else {
            throw ClusterError(
                .notInstalled,
                "no PostgreSQL \(oldestMajorVersion) or newer found in PATH, by pg_config or in /usr/lib/postgresql: "
                    + "install the Debian package postgresql")
        }
        return newest
    }

    /// Returns the installations in order of preference: PATH, pg_config, then the folders of Debian and Red Hat.
    private static func installations(_ searchPath: String) -> [PostgresBinaries] {
        let path = searchPath.split(separator: ":").map(String.init).filter { $0.hasPrefix("/") }
        var directories = path
        if let program = path.map({ $0 + "/pg_config" }).first(where: isProgram),
            let answer = try? ChildProcess.run([program, "--bindir"]), answer.status == 0
        {
            directories.append(String(answer.output.prefix { !$0.isNewline }))
        }
        directories += ClusterFiles.names(in: "/usr/lib/postgresql").map { "/usr/lib/postgresql/\($0)/bin" }
        directories += ClusterFiles.names(in: "/usr").filter { $0.hasPrefix("pgsql-") }.map { "/usr/\($0)/bin" }
        var seen: Set<String> = []
        return directories.compactMap { directory in
            guard seen.insert(directory).inserted, isProgram(directory + "/initdb"), isProgram(directory + "/postgres"),
                let answer = try? ChildProcess.run([directory + "/postgres", "-V"]), answer.status == 0,
                let version = majorVersion(answer.output)
            else { return nil }
            return PostgresBinaries(directory: directory, majorVersion: version)
        }
    }

    /// Returns 15 for `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
    static func majorVersion(_ text: String) -> Int? {
        let words = text.split(separator: " ")
        guard let name = words.firstIndex(of: "(PostgreSQL)"), name + 1 < words.count else { return nil }
        return Int(words[name + 1].prefix { $0.isNumber })
    }

    private static func isProgram(_ path: String) -> Bool {
        access(path, X_OK) == 0
    }
}
