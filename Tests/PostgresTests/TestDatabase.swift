import Glibc
import Postgres
import Synchronization

@testable import PostgresCluster

/// A private PostgreSQL server for all suites of this test program, started at first use.
enum TestDatabase {
    private static let directory = "/tmp/pathmirror-postgres-tests-\(getpid())"
    private static let started: Result<PostgresCluster, ClusterError> = start()

    static func cluster() throws -> PostgresCluster {
        try started.get()
    }

    static func url() throws -> PostgresURL {
        try cluster().url
    }

    static func connect(_ settings: PostgresConnectionSettings = PostgresConnectionSettings()) throws
        -> PostgresConnection
    {
        try PostgresConnection(url(), settings: settings)
    }

    private static func start() -> Result<PostgresCluster, ClusterError> {
        var settings = ClusterSettings(dataDirectory: directory)
        settings.durability = .testFast
        do throws(ClusterError) {
            let cluster = try PostgresCluster.start(settings)
            atexit { TestDatabase.remove() }
            return .success(cluster)
        } catch {
            return .failure(error)
        }
    }

    private static func remove() {
        if case .success(let cluster) = started {
            cluster.stop(.immediate)
        }
        removeTree(directory)
    }
}

func removeTree(_ path: String) {
    ClusterFiles.removeTree(path)
}

/// Runs a blocking closure on a new thread. `join` returns its result.
final class Background<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, any Error>?>(nil)
    private let body: @Sendable () throws -> Value
    private let thread = Mutex<pthread_t>(0)

    init(_ body: @escaping @Sendable () throws -> Value) {
        self.body = body
        let job = Job { [self] in run() }
        thread.withLock { thread in
            _ = pthread_create(
                &thread, nil,
                { context in
                    context.map { Unmanaged<Job>.fromOpaque($0).takeRetainedValue().run() }
                    return nil
                }, Unmanaged.passRetained(job).toOpaque())
        }
    }

    private func run() {
        let outcome = Result { try body() }
        result.withLock { $0 = outcome }
    }

    func join() throws -> Value {
        pthread_join(thread.withLock { $0 }, nil)
        guard let outcome = result.withLock({ $0 }) else { throw NeverRan() }
        return try outcome.get()
    }

    struct NeverRan: Error {}
}

/// Not generic, so that a C function pointer can refer to it.
private final class Job: Sendable {
    let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) {
        self.run = run
    }
}

/// Polls until the condition holds. Returns false after ten seconds.
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
    for _ in 0..<2_000 {
        if try condition() {
            return true
        }
        usleep(5_000)
    }
    return false
}

/// Waits until the backend executes a statement, so that the next action interrupts it.
func waitUntilActive(_ backend: Int32) throws -> Bool {
    let observer = try TestDatabase.connect()
    return try eventually {
        let found = try observer.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid = $1::int4 AND state = 'active' AND wait_event = 'PgSleep'",
            [.int4(backend)])
        return found.rowCount == 1
    }
}
