import LogStore
import Postgres
import Runtime

/// What the thread does.
struct RetentionKeeper {
    let url: PostgresURL
    let settings: RetentionSettings
    let connectionSettings: LogConnection.Settings
    let logger: Logger
    let metrics: RetentionMetrics
    let servers: ServerFence
    let stopping: Condition<Bool>
    /// The connection of the look that is under way, for who ends it.
    let connection: MutexBox<PostgresCancelHandle?>

    private static let silenceMilliseconds: Milliseconds = 120_000

    func run() {
        var last: Int64 = 0
        var wasLost = false
        // A gateway that has just started has more important things to do.
        while !stops(within: settings.intervalMilliseconds) {
            do throws(LogStoreError) {
                last = try look(after: last)
                wasLost = false
            } catch {
                // The committers say that the database is away; what is else wrong is said once.
                if !wasLost, !error.isConnectionLost, !isStopping {
                    logger.warning("logs can't be shortened", [("reason", "\(error)")])
                }
                wasLost = true
            }
        }
    }

    /// - Returns: the last namespace that was looked at; 0 when the next look begins anew.
    private func look(after last: Int64) throws(LogStoreError) -> Int64 {
        var settings = connectionSettings
        // Large trees are copied, and large partitions looked through, statement by statement: none takes longer than this.
        settings.connection.statementTimeoutMilliseconds = Self.silenceMilliseconds
        let connection = try servers.open(url.withApplicationName("pathmirror retention"), settings)
        defer {
            self.connection.withLock { $0 = nil }
            connection.close()
        }
        self.connection.withLock { $0 = connection.cancelHandle }
        guard !isStopping else { return last }
        guard try connection.takeRetentionTurn() else {
            metrics.heldBack.set(0)
            return 0
        }
        let namespaces = try connection.namespacesWithRetention(after: last, limit: self.settings.namespacesAtOnce)
        let round = RetentionRound(connection) { isStopping }
        var heldBack = 0
        for namespace in namespaces {
            if isStopping { return last }
            guard let outcome = try round.run(namespace) else { continue }
            note(outcome, namespace)
            if outcome.waitsFor != nil { heldBack += 1 }
        }
        metrics.heldBack.set(heldBack)
        _ = try connection.forgetWriters(unusedForDays: self.settings.rememberedWriteDays)
        return namespaces.count < self.settings.namespacesAtOnce ? 0 : namespaces.last ?? 0
    }

    private func note(_ outcome: RetentionOutcome, _ namespace: Int64) {
        metrics.droppedEntries.add(Int(clamping: outcome.dropped))
        if outcome.tookSnapshot { metrics.snapshots.add() }
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

    /// Waits; true where it was told to stop.
    private func stops(within milliseconds: Milliseconds) -> Bool {
        stopping.wait(milliseconds: milliseconds) { $0 ? true : nil } ?? false
    }
}
