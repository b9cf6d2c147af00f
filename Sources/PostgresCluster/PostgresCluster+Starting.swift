import Glibc
import Postgres
import Runtime

extension PostgresCluster {
    /// Starts the cluster in a data directory, creating it first if there is none, and waits until it answers.
    ///
    /// - Throws: an error with advice. No server is running then.
    public static func start(_ settings: ClusterSettings) throws(ClusterError) -> PostgresCluster {
        let progress = settings.progress ?? { _ in }
        // As root, other users may pass through the directory but not list it, because the server's user must reach its
        // folder.
        try ClusterFiles.createDirectory(settings.dataDirectory, mode: geteuid() == 0 ? 0o711 : 0o700)
        let root = try ClusterFiles.absolute(settings.dataDirectory)
        var locks = [try DirectoryLock(root)]
        let user = try ServerUser(existingData: root + "/pgdata")
        let paths = try ClusterPaths(root: root, user: user, progress: progress)
        if paths.isElsewhere {
            // Two links may lead to one cluster.
            locks.append(try DirectoryLock(paths.base))
        }
        let version = ClusterCreation.version(paths.data)
        let binaries = try PostgresBinaries.find(existing: version)
        if version == nil {
            progress("creating a PostgreSQL \(binaries.majorVersion) cluster in \(paths.data)")
            try ClusterCreation(paths: paths, user: user, binaries: binaries, durability: settings.durability).run()
        } else {
            try requireOwner(paths, user)
            try StalePostmaster.clear(data: paths.data, socketDirectory: paths.socketDirectory, progress: progress)
        }
        let configuration = ServerConfiguration.text(settings, hasLZ4: hasLZ4(paths, user, binaries))
        try ClusterFiles.write(paths.data + "/postgresql.conf", configuration, mode: 0o600, owner: user)
        let postmaster = try launch(paths, user, binaries, settings)
        return PostgresCluster(postmaster, paths, locks, majorVersion: binaries.majorVersion)
    }

    /// Whether the server was built with LZ4, which costs a fraction of the standard compression.
    private static func hasLZ4(_ paths: ClusterPaths, _ user: ServerUser, _ binaries: PostgresBinaries) -> Bool {
        let question = [
            binaries.postgres, "-D", paths.data, "-c", "wal_compression=lz4", "-C", "wal_compression",
        ]
        return (try? ChildProcess.run(user.command(question)))?.status == 0
    }

    private static func requireOwner(_ paths: ClusterPaths, _ user: ServerUser) throws(ClusterError) {
        guard let owner = ClusterFiles.status(paths.data)?.st_uid, owner != user.userID else { return }
        throw ClusterError(
            .system,
            "the cluster in \(paths.data) belongs to the user \(ServerUser.name(of: owner)): "
                + "start as that user or as root, or name another data directory")
    }

    /// Starts the server and waits until it answers. Retries only while the last processes of a crashed server still
    /// hold its shared memory.
    private static func launch(
        _ paths: ClusterPaths, _ user: ServerUser, _ binaries: PostgresBinaries, _ settings: ClusterSettings
    ) throws(ClusterError) -> Postmaster {
        let log = try openLog(paths.log)
        defer { close(log) }
        let arguments = ServerConfiguration.arguments(data: paths.data, socketDirectory: paths.socketDirectory)
        var waitedMilliseconds: Milliseconds = 0
        while true {
            let logStart = lseek(log, 0, SEEK_END)
            let command = user.command([binaries.postgres] + arguments)
            let postmaster = Postmaster(try ChildProcess.spawn(command, output: log))
            do throws(ClusterError) {
                try waitUntilReady(postmaster, paths, settings, logStart)
                return postmaster
            } catch {
                if postmaster.isRunning {
                    postmaster.signal(SIGQUIT)
                    if !postmaster.waitForExit(timeoutMilliseconds: 5_000) {
                        postmaster.signal(SIGKILL)
                        _ = postmaster.waitForExit(timeoutMilliseconds: 5_000)
                    }
                }
                guard waitedMilliseconds < 10_000,
                    logTail(paths, from: logStart).contains("pre-existing shared memory block")
                else {
                    throw error
                }
            }
            pause(milliseconds: 100)
            waitedMilliseconds += 100
        }
    }

    private static func openLog(_ path: String) throws(ClusterError) -> Int32 {
        let log = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard log >= 0 else { throw ClusterFiles.fail("open \(path)") }
        if lseek(log, 0, SEEK_END) > logBytesMax {
            ftruncate(log, 0)
        }
        return log
    }

    /// Above this size, the log is truncated at the next start.
    private static let logBytesMax = 10 * 1024 * 1024

    private static func waitUntilReady(
        _ postmaster: Postmaster, _ paths: ClusterPaths, _ settings: ClusterSettings, _ logStart: off_t
    ) throws(ClusterError) {
        // This database exists from the beginning; the cluster's own may not exist yet.
        let maintenance = url(paths, database: "postgres")
        var connection = PostgresConnectionSettings()
        connection.connectTimeoutMilliseconds = 5_000
        let start = ContinuousClock.now
        let limit = start + .milliseconds(settings.startTimeoutMilliseconds)
        var nextNotice = start + .seconds(5)
        while true {
            do throws(PostgresError) {
                let session = try PostgresConnection(maintenance, settings: connection)
                try createDatabase(session)
                session.close()
                return
            } catch {
                if let status = postmaster.exitStatus {
                    throw ClusterError(
                        .start, "PostgreSQL ended while starting (exit status \(status)): \(reason(paths, logStart))")
                }
                let now = ContinuousClock.now
                guard now < limit else {
                    throw ClusterError(
                        .start,
                        "PostgreSQL did not answer within \(settings.startTimeoutMilliseconds) ms "
                            + "(\(error.message)); see \(paths.log)"
                    )
                }
                // Refused connections are normal during the start. Any other error comes from creating the database.
                guard error.kind == .connect || error.isConnectionLost else {
                    throw ClusterError(.start, "PostgreSQL started, but its database could not be created: \(error)")
                }
                if now > nextNotice {
                    settings.progress?("waiting for PostgreSQL (\(error.message))")
                    nextNotice = now + .seconds(5)
                }
            }
            pause(milliseconds: 5)
        }
    }

    private static func createDatabase(_ session: PostgresConnection) throws(PostgresError) {
        let found = try session.execute(
            "SELECT 1 FROM pg_database WHERE datname = $1::text", [.text(databaseName)])
        if found.rowCount == 0 {
            try session.execute("CREATE DATABASE \(quotedIdentifier(databaseName))")
        }
    }

    /// Returns the fatal message that PostgreSQL logged during this start, or else the last line. If the message only
    /// reports errors in a configuration file, returns the line before it.
    private static func reason(_ paths: ClusterPaths, _ logStart: off_t) -> String {
        let lines = logTail(paths, from: logStart).split(whereSeparator: \.isNewline)
        var line = lines.last ?? "no log output"
        if let fatal = lines.firstIndex(where: { $0.contains("FATAL:") }) {
            line = lines[fatal].contains("configuration file") && fatal > 0 ? lines[fatal - 1] : lines[fatal]
        }
        return "\(line) (log: \(paths.log))"
    }

    private static func logTail(_ paths: ClusterPaths, from start: off_t) -> String {
        guard let size = ClusterFiles.status(paths.log)?.st_size, size > start else { return "" }
        return ClusterFiles.read(paths.log, lastBytes: min(Int(size - start), 64 * 1024)) ?? ""
    }
}
