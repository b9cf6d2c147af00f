import Glibc

/// Creates the data folder: first under a temporary name, then renamed when it is complete and on disk. The remains of
/// an interrupted creation never count as a cluster, and the next creation removes them.
struct ClusterCreation {
    let paths: ClusterPaths
    let user: ServerUser
    let binaries: PostgresBinaries
    let durability: ClusterSettings.Durability

    private static let unfinishedPrefix = "pgdata.init-"

    /// Returns the major version of the cluster in a data folder, or nil if there is none.
    static func version(_ data: String) -> Int? {
        ClusterFiles.read(data + "/PG_VERSION").flatMap { Int($0.prefix { $0.isNumber }) }
    }

    func run() throws(ClusterError) {
        removeUnfinished()
        let unfinished = "\(paths.base)/\(Self.unfinishedPrefix)\(getpid())"
        guard mkdir(unfinished, 0o700) == 0 else { throw ClusterFiles.fail("create the folder \(unfinished)") }
        do throws(ClusterError) {
            try ClusterFiles.own(unfinished, user)
            try initialize(unfinished)
            let access = unfinished + "/pg_hba.conf"
            try ClusterFiles.write(access, ServerConfiguration.hostBasedAuthentication, mode: 0o600, owner: user)
            if durability == .full {
                try sync(unfinished)
            }
            guard rename(unfinished, paths.data) == 0 else {
                throw ClusterFiles.fail("rename \(unfinished) to \(paths.data)")
            }
            try ClusterFiles.syncDirectory(paths.base)
        } catch {
            ClusterFiles.removeTree(unfinished)
            throw error
        }
    }

    private func removeUnfinished() {
        for name in ClusterFiles.names(in: paths.base) where name.hasPrefix(Self.unfinishedPrefix) {
            ClusterFiles.removeTree("\(paths.base)/\(name)")
        }
    }

    private func initialize(_ folder: String) throws(ClusterError) {
        let result = try ChildProcess.run(
            user.command([
                binaries.initdb, "-D", folder, "--username=\(PostgresCluster.userName)", "--auth=trust",
                "--encoding=UTF8", "--locale=C", "--data-checksums", "--no-sync", "--no-instructions",
            ]))
        guard result.status == 0 else {
            let lines = result.output.split(whereSeparator: \.isNewline)
            let reason = lines.first { $0.contains("error:") } ?? lines.last ?? "no output"
            throw ClusterError(.creation, "initdb failed (exit status \(result.status)): \(reason)")
        }
    }

    /// Syncs all files at once instead of one by one during creation, which is faster and equally durable.
    private func sync(_ folder: String) throws(ClusterError) {
        let result = try ChildProcess.run(user.command([binaries.initdb, "--sync-only", "-D", folder]))
        guard result.status == 0 else {
            throw ClusterError(.creation, "initdb --sync-only failed (exit status \(result.status))")
        }
    }
}
