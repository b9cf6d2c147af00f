import LogStore
import Postgres
import Runtime

/// The work of the retention thread.
struct RetentionKeeper {
    let url: PostgresURL
    let settings: RetentionSettings
    let connectionSettings: LogConnection.Settings
    let logger: Logger
    let metrics: RetentionMetrics
    let servers: ServerFence
    let stopping: Condition<Bool>
    /// The connection of the pass in progress, which `RetentionService.stop` abandons.
    let connection: MutexBox<PostgresCancelHandle?>

    private static let silenceMilliseconds: Milliseconds = 120_000

    func run() {
        var last: Int64 = 0
        var (shortens, forgets) = (true, true)
        // A gateway that has just started has more important work.
        var nextLook = time(after: settings.intervalMilliseconds)
        var nextForgetting = time(after: settings.forgettingMilliseconds)
        while !stops(within: max(1, min(nextLook, nextForgetting) - Clock.monotonicMilliseconds)) {
            if Clock.monotonicMilliseconds >= nextForgetting {
                forgets = attempt("names of writes can't be deleted", after: forgets) { () throws(LogStoreError) in
                    try forgetWriters()
                }
                nextForgetting = time(after: settings.forgettingMilliseconds)
            }
            if Clock.monotonicMilliseconds >= nextLook {
                shortens = attempt("logs can't be shortened", after: shortens) { () throws(LogStoreError) in
                    last = try look(after: last)
                }
                nextLook = time(after: settings.intervalMilliseconds)
            }
        }
    }

    /// - Parameter milliseconds: 0 for never.
    private func time(after milliseconds: Milliseconds) -> Milliseconds {
        milliseconds > 0 ? Clock.monotonicMilliseconds + milliseconds : .max
    }

    /// Executes one kind of work and catches its errors.
    ///
    /// - Parameter succeeded: whether the last attempt succeeded.
    /// - Returns: whether this attempt succeeded.
    private func attempt(_ failure: String, after succeeded: Bool, _ work: () throws(LogStoreError) -> Void) -> Bool {
        do throws(LogStoreError) {
            try work()
            return true
        } catch {
            // The committers log that the database is away; other errors are logged once.
            if succeeded, !error.isConnectionLost, !isStopping { logger.warning(failure, [("reason", "\(error)")]) }
            return false
        }
    }

    private func connect() throws(LogStoreError) -> LogConnection {
        var settings = connectionSettings
        // The pass copies large trees and scans large partitions statement by statement: none takes longer than this.
        settings.connection.statementTimeoutMilliseconds = Self.silenceMilliseconds
        let opened = try servers.open(url.withApplicationName("pathmirror retention"), settings)
        connection.withLock { $0 = opened.cancelHandle }
        return opened
    }

    private func disconnect(_ opened: LogConnection) {
        connection.withLock { $0 = nil }
        opened.close()
    }

    /// Removes old names of writes, even if this gateway does not shorten logs. The task has a lock of its own, so that
    /// it does not make a `retention run` fail.
    private func forgetWriters() throws(LogStoreError) {
        let connection = try connect()
        defer { disconnect(connection) }
        guard !isStopping, try connection.takeForgettingTurn() else { return }
        _ = try connection.forgetWriters(unusedForDays: settings.rememberedWriteDays)
    }

    /// Shortens the logs of the next namespaces.
    ///
    /// - Returns: the last namespace whose log was checked; 0 if the next pass starts with the first namespace again.
    private func look(after last: Int64) throws(LogStoreError) -> Int64 {
        let connection = try connect()
        defer { disconnect(connection) }
        guard !isStopping else { return last }
        guard try connection.takeRetentionTurn() else {
            metrics.heldBack.set(0)
            return 0
        }
        let namespaces = try connection.namespacesWithRetention(after: last, limit: settings.namespacesAtOnce)
        let round = RetentionRound(connection) { isStopping }
        var heldBack = 0
        for namespace in namespaces {
            if isStopping { return last }
            guard let outcome = try round.run(namespace) else { continue }
            note(outcome, namespace)
            if outcome.waitsFor != nil { heldBack += 1 }
        }
        metrics.heldBack.set(heldBack)
        return namespaces.count < settings.namespacesAtOnce ? 0 : namespaces.last ?? 0
    }

    private func note(_ outcome: RetentionOutcome, _ namespace: Int64) {
        metrics.droppedEntries.add(Int(clamping: outcome.dropped))
        if let message = outcome.message {
            metrics.failures.add()
            logger.warning("a log was not shortened", [("namespace", "\(namespace)"), ("reason", message)])
        }
        if let newFrom = outcome.newFrom {
            logger.info(
                "log shortened",
                [("namespace", "\(namespace)"), ("from", "\(newFrom)"), ("dropped", "\(outcome.dropped)")])
        }
    }

    private var isStopping: Bool { stopping.withLock { $0 } }

    /// Pauses the thread; returns true if the service is stopping.
    private func stops(within milliseconds: Milliseconds) -> Bool {
        stopping.wait(milliseconds: milliseconds) { $0 ? true : nil } ?? false
    }
}
