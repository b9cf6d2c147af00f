import Glibc

/// Creates the data folder: in a folder of its own first, renamed when it is whole and on disk. What a killed
/// creation left behind is never taken for a cluster, and is removed by the next one.
struct ClusterCreation {
    let place: ClusterPlace
    let user: ServerUser
    let binaries: PostgresBinaries
    let durability: ClusterSettings.Durability

    private static let unfinishedPrefix = "pgdata.init-"

    /// The major version of the cluster in a data folder; nil if there is none.
    static func version(_ data: String) -> Int? {
        Files.read(data + "/PG_VERSION").flatMap { Int($0.prefix { $0.isNumber }) }
    }

    func run() throws(ClusterError) {
        removeUnfinished()
        let unfinished = "\(place.base)/\(Self.unfinishedPrefix)\(getpid())"
        guard mkdir(unfinished, 0o700) == 0 else { throw Files.fail("create the folder \(unfinished)") }
        do throws(ClusterError) {
            try Files.own(unfinished, user)
            try initialize(unfinished)
            let access = unfinished + "/pg_hba.conf"
            try Files.write(access, ServerConfiguration.hostBasedAuthentication, mode: 0o600, owner: user)
            if durability == .full {
                try sync(unfinished)
            }
            guard rename(unfinished, place.data) == 0 else { throw Files.fail("rename \(unfinished) to \(place.data)") }
            try Files.syncDirectory(place.base)
        } catch {
            Files.removeTree(unfinished)
            throw error
        }
    }

    private func removeUnfinished() {
        for name in Files.names(in: place.base) where name.hasPrefix(Self.unfinishedPrefix) {
            Files.removeTree("\(place.base)/\(name)")
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
            let reason = lines.first { $0.contains("error:") } ?? lines.last ?? "it said nothing"
            throw ClusterError(.creation, "initdb failed (exit status \(result.status)): \(reason)")
        }
    }

    /// All at once instead of file by file while creating: less waiting for the disk, and the same in the end.
    private func sync(_ folder: String) throws(ClusterError) {
        let result = try ChildProcess.run(user.command([binaries.initdb, "--sync-only", "-D", folder]))
        guard result.status == 0 else {
            throw ClusterError(.creation, "initdb --sync-only failed (exit status \(result.status))")
        }
    }
}
