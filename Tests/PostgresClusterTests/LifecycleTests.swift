import Glibc
import Postgres
import Testing

@testable import PostgresCluster

/// Checks that a cluster starts, stops and starts again with its data, for any caller and after any earlier event. Uses
/// real clusters, each in its own folder.
@Suite(.timeLimit(.minutes(20))) struct LifecycleTests {
    @Test func startsStopsAndKeepsItsData() throws {
        let folder = ClusterFolder("keeps")
        let first = try folder.start { $0.durability = .full }
        #expect(first.isRunning)
        #expect(first.majorVersion >= 15)
        #expect(try first.value("SHOW fsync") == "on")
        #expect(try first.value("SHOW data_checksums") == "on")
        #expect(
            try first.value("SHOW wal_compression")
                == first.value(
                    "SELECT CASE WHEN 'lz4' = ANY (enumvals) THEN 'lz4' ELSE 'pglz' END FROM pg_settings "
                        + "WHERE name = 'wal_compression'"))
        #expect(try first.value("SHOW server_encoding") == "UTF8")
        #expect(try first.value("SHOW lc_collate") == "C")
        #expect(try first.value("SHOW listen_addresses") == "")
        #expect(try first.value("SELECT current_user || '@' || current_database()") == "pathmirror@pathmirror")
        try PostgresConnection(first.url).executeScript("CREATE TABLE kept AS SELECT 'here' AS t")
        first.stop()
        first.stop()
        #expect(!first.isRunning)
        #expect(throws: PostgresError.self) { try PostgresConnection(first.url) }
        let second = try folder.start { $0.settings = ["work_mem": "7MB", "log_line_prefix": "it's \\ "] }
        #expect(try second.value("SELECT t FROM kept") == "here")
        #expect(try second.value("SHOW work_mem") == "7MB")
        #expect(try second.value("SHOW log_line_prefix") == "it's \\ ")
        #expect(try second.value("SHOW fsync") == "off")
        #expect(folder.progress.count == 1)
    }

    @Test func isPrivate() throws {
        let folder = ClusterFolder("private")
        let cluster = try folder.start()
        let process = try #require(ClusterFiles.status("/proc/\(cluster.postmasterPID)"))
        #expect(process.st_uid != 0)
        let socket = try #require(ClusterFiles.status(folder.path + "/run"))
        #expect(socket.st_mode & 0o777 == 0o700)
        #expect(socket.st_uid == process.st_uid)
        // The server has its own session, so that the terminal's Ctrl-C does not reach it.
        #expect(getsid(cluster.postmasterPID) == cluster.postmasterPID)
        #expect(cluster.psqlCommand == "psql -h \(folder.path)/run -U pathmirror pathmirror")
    }

    @Test func oneProcessADirectory() throws {
        let folder = ClusterFolder("inuse")
        let cluster = try folder.start()
        let error = #expect(throws: ClusterError.self) { try PostgresCluster.start(folder.settings) }
        #expect(error?.kind == .inUse(processID: getpid()))
        #expect(error?.message.contains("in use by another pathmirror (process \(getpid()))") == true)
        #expect(cluster.isRunning)
    }

    @Test func survivesItsOwnCrash() throws {
        let folder = ClusterFolder("crash")
        let first = try folder.start()
        try PostgresConnection(first.url).executeScript("CREATE TABLE kept AS SELECT 'here' AS t")
        first.killHard()
        #expect(!first.isRunning)
        let second = try folder.start()
        #expect(try second.value("SELECT t FROM kept") == "here")
    }

    @Test func noticesThatTheServerEnded() throws {
        let cluster = try ClusterFolder("ended").start()
        kill(cluster.postmasterPID, SIGQUIT)
        while cluster.isRunning { pause(milliseconds: 1) }
        cluster.stop()
    }

    @Test func takesOverFromAKilledProcess() async throws {
        let folder = ClusterFolder("orphan")
        let path = folder.path
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            var settings = ClusterSettings(dataDirectory: path)
            settings.durability = .testFast
            let cluster = try PostgresCluster.start(settings)
            try PostgresConnection(cluster.url).executeScript("CREATE TABLE kept AS SELECT 'here' AS t")
            kill(getpid(), SIGKILL)
        }
        let orphan = try #require(StalePostmaster.processID(ClusterFiles.read(path + "/pgdata/postmaster.pid")))
        #expect(ProcessTable.isPostmaster(orphan, data: path + "/pgdata") == .yes)
        let cluster = try folder.start()
        #expect(try cluster.value("SELECT t FROM kept") == "here")
        #expect(cluster.postmasterPID != orphan)
        #expect(!ProcessTable.isAlive(orphan))
        #expect(
            folder.progress == ["stopping the PostgreSQL (process \(orphan)) that an earlier pathmirror left running"])
    }

    /// Checks that a stale process number does not prevent a start. PostgreSQL itself would accept any process of its
    /// user with that number, including an unrelated one or a zombie.
    @Test(arguments: [["sleep", "60"], ["true"]])
    func aProcessNumberThatIsNotTheServersDoesNotBlock(command: [String]) throws {
        let folder = ClusterFolder("number-\(command[0])")
        let first = try folder.start()
        let files = [folder.path + "/pgdata/postmaster.pid", folder.path + "/run/.s.PGSQL.5432.lock"]
        let texts = try files.map { try #require(ClusterFiles.read($0)) }
        let owner = try #require(ClusterFiles.status(files[0]))
        first.killHard()
        let user = try ServerUser(existingData: folder.path + "/pgdata")
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        let other = try ChildProcess.spawn(user.command(command), output: null)
        defer {
            kill(other, SIGKILL)
            waitpid(other, nil, 0)
            close(null)
        }
        let isZombie = command == ["true"]
        while isZombie, ProcessTable.isAlive(other) { pause(milliseconds: 1) }
        for (file, text) in zip(files, texts) {
            try ClusterFiles.write(file, "\(other)\(text.drop { !$0.isNewline })", mode: 0o600, owner: nil)
            chown(file, owner.st_uid, owner.st_gid)
        }
        #expect(PostgresCluster.runningURL(dataDirectory: folder.path) == nil)
        #expect(try folder.start().value("SELECT 'up'") == "up")
        #expect(PostgresCluster.runningURL(dataDirectory: folder.path) != nil)
        #expect(ProcessTable.isAlive(other) == !isZombie)
    }

    @Test func anUnfinishedCreationIsDoneAgain() throws {
        let folder = ClusterFolder("unfinished")
        let remains = folder.path + "/pgdata.init-1"
        try ClusterFiles.createDirectory(remains + "/base/1", mode: 0o700)
        try ClusterFiles.write(remains + "/PG_VERSION", "15\n", mode: 0o600, owner: nil)
        chmod(folder.path, 0o711)
        #expect(try folder.start().value("SELECT 'up'") == "up")
        #expect(ClusterFiles.status(remains) == nil)
    }

    @Test func aRefusedSettingIsNamed() throws {
        let folder = ClusterFolder("setting")
        let error = #expect(throws: ClusterError.self) { try folder.start { $0.settings["max_connections"] = "-1" } }
        #expect(error?.kind == .start)
        #expect(error?.message.contains("max_connections") == true)
        // The failed start holds no lock.
        #expect(try folder.start().isRunning)
    }

    @Test func aLargeLogStartsAgain() throws {
        let folder = ClusterFolder("log")
        try ClusterFiles.createDirectory(folder.path, mode: 0o711)
        try ClusterFiles.write(folder.path + "/postgres.log", "x", mode: 0o600, owner: nil)
        truncate(folder.path + "/postgres.log", 11 << 20)
        let cluster = try folder.start()
        #expect(try #require(ClusterFiles.status(cluster.logPath)).st_size < 1 << 20)
    }
}
