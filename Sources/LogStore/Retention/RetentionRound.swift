import Postgres
import Runtime

/// The result of one retention round of a namespace.
public struct RetentionOutcome: Sendable, Equatable {
    /// The number of dropped entries.
    public var dropped: Int64 = 0
    public var tookSnapshot = false
    /// The new first entry of the log, or nil if it has not changed.
    public var newFrom: Int64?
    /// The reader that still needs entries beyond the policy, such as `mirror orders`.
    public var waitsFor: String?
    /// The reason why the round failed, or nil.
    public var message: String?

    /// Whether the result must be stored.
    var isWorthNoting: Bool { dropped > 0 || tookSnapshot || newFrom != nil || waitsFor != nil || message != nil }

    public init() {}
}

/// Shortens one namespace's log to its policy, in pieces, with the privileges of a gateway.
public struct RetentionRound {
    private let connection: LogConnection
    private let stops: () -> Bool

    /// - Parameter stops: called between pieces. Returns whether to leave the rest to the next round.
    public init(_ connection: LogConnection, stops: @escaping () -> Bool = { false }) {
        self.connection = connection
        self.stops = stops
    }

    /// Executes the actions that are due for a namespace, and stores the result in the database.
    ///
    /// - Returns: nil if no policy applies to the namespace.
    /// - Throws: if the connection is lost. Other errors are in the outcome.
    public func run(_ namespace: Int64) throws(LogStoreError) -> RetentionOutcome? {
        guard let policy = try connection.retentionInForce(for: namespace),
            let record = try connection.namespace(id: namespace)
        else { return nil }
        let before = try connection.retentionRun(of: namespace)
        var outcome = RetentionOutcome()
        do {
            try shorten(record, policy, hasMore: before?.message != nil, &outcome)
        } catch {
            let error = LogStoreError(error)
            guard !error.isConnectionLost, connection.isOpen else { throw error }
            outcome.message = "\(error)"
        }
        // A stored row that reports a wait or an error is corrected when it no longer applies.
        if outcome.isWorthNoting || before?.waitsFor != nil || before?.message != nil {
            try connection.noteRetention(
                namespace, dropped: outcome.dropped, snapshots: outcome.tookSnapshot ? 1 : 0,
                waitsFor: outcome.waitsFor,
                message: outcome.message)
        }
        return outcome
    }

    /// - Parameter hasMore: whether an earlier round may have left something to drop.
    private func shorten(
        _ record: NamespaceRecord, _ policy: RetentionPolicy, hasMore: Bool, _ outcome: inout RetentionOutcome
    ) throws {
        let pruning = Pruning(connection, record)
        let snapshots = try connection.snapshots(record.id)
        // The search costs many lookups in the log, so it only runs if there is a snapshot up to which the log could be
        // shortened.
        let canShorten = snapshots.contains { $0.seq + 1 > record.retainedFrom }
        let step = RetentionStep(
            policy, head: record.head, retainedFrom: record.retainedFrom,
            wantedFrom: canShorten ? try pruning.wantedFrom(policy) : record.retainedFrom, snapshots: snapshots,
            now: try connection.clockMilliseconds())
        if step.takesSnapshot {
            _ = try connection.takeSnapshot(record.id, for: .retention)
            outcome.tookSnapshot = true
        }
        guard let target = step.newFrom, let plan = try plan(pruning, record, target, &outcome) else {
            // An earlier round may have left something to drop, even if a reader blocks the next step.
            if try hasMore || connection.hasLeftOver(record) { try dropPieces(record.id, &outcome) }
            return
        }
        // If this round is interrupted, the message shows the next one that there is more to drop.
        try connection.noteRetention(
            record.id, dropped: 0, snapshots: 0, waitsFor: outcome.waitsFor,
            message: "dropping entries before seq \(plan.newFrom)")
        outcome.newFrom = plan.newFrom
        var pieces = RetentionOutcome()
        try pruning.run(plan, dropping: { try dropPieces(record.id, &pieces) })
        outcome.dropped = pieces.dropped
        outcome.message = pieces.message
    }

    /// Returns a plan up to an entry directly after a snapshot. If a reader needs more entries, plans up to an older
    /// snapshot. Returns nil if nothing can be removed.
    private func plan(
        _ pruning: Pruning, _ record: NamespaceRecord, _ target: Int64, _ outcome: inout RetentionOutcome
    ) throws -> Pruning.Plan? {
        let plan = try pruning.plan(.from(target), force: false, leavesPartitions: true)
        outcome.waitsFor = plan.holders.first.map { "\($0.kind) \($0.name)" }
        if plan.newFrom == target { return plan }
        let older = try connection.snapshots(record.id).last { $0.seq < plan.newFrom }
        guard let older, older.seq + 1 > record.retainedFrom else { return nil }
        return try pruning.plan(.from(older.seq + 1), force: false, leavesPartitions: true)
    }

    /// Each search takes about a second. The next round continues the rest.
    private static let mostLooks = 300

    private func dropPieces(_ namespace: Int64, _ outcome: inout RetentionOutcome) throws {
        var looks = 0
        while true {
            if stops() {
                outcome.message = "stopped before all entries were dropped"
                return
            }
            let dropped = try connection.dropPiece(of: namespace)
            outcome.dropped += dropped
            if dropped > 0 { continue }
            guard try connection.lookThroughLog(of: namespace) else { return }
            looks += 1
            if looks == Self.mostLooks {
                outcome.message = "stopped before the whole log was searched"
                return
            }
        }
    }
}
