import Postgres
import Runtime

/// What one look at a namespace's log did.
public struct RetentionOutcome: Sendable, Equatable {
    /// Entries that went.
    public var dropped: Int64 = 0
    public var tookSnapshot = false
    /// The entry that the log begins with from now on; nil where that has not changed.
    public var newFrom: Int64?
    /// Who still needs entries that would have gone: `mirror orders`.
    public var waitsFor: String?
    /// Why it did not succeed.
    public var message: String?

    /// Whether there is something new to keep of it.
    var isWorthNoting: Bool { dropped > 0 || tookSnapshot || newFrom != nil || waitsFor != nil || message != nil }

    public init() {}
}

/// Shortens one namespace's log as far as its policy says, in pieces, by the rights of a gateway.
public struct RetentionRound {
    private let connection: LogConnection
    private let stops: () -> Bool

    /// - Parameter stops: asked between pieces: whether to leave the rest to the next round.
    public init(_ connection: LogConnection, stops: @escaping () -> Bool = { false }) {
        self.connection = connection
        self.stops = stops
    }

    /// Looks at a namespace, does what is due, and keeps in the database how that went.
    ///
    /// - Returns: nil where no policy holds for it.
    /// - Throws: where the connection is lost. What else goes wrong is in the outcome.
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
        // A row that says that something waits, or went wrong, is corrected once it doesn't any more.
        if outcome.isWorthNoting || before?.waitsFor != nil || before?.message != nil {
            try connection.noteRetention(
                namespace, dropped: outcome.dropped, snapshots: outcome.tookSnapshot ? 1 : 0,
                waitsFor: outcome.waitsFor,
                message: outcome.message)
        }
        return outcome
    }

    /// - Parameter hasMore: an earlier round may have left something to drop.
    private func shorten(
        _ record: NamespaceRecord, _ policy: RetentionPolicy, hasMore: Bool, _ outcome: inout RetentionOutcome
    ) throws {
        let pruning = Pruning(connection, record)
        let snapshots = try connection.snapshots(record.id)
        // The search costs many looks at the log: only where there is a snapshot that the log could be shortened up to.
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
            // An earlier round may have left something, whoever holds back the next step.
            if try hasMore || connection.hasLeftOver(record) { try dropPieces(record.id, &outcome) }
            return
        }
        // Whoever comes after an end in the middle knows by it that there is more to drop.
        try connection.noteRetention(
            record.id, dropped: 0, snapshots: 0, waitsFor: outcome.waitsFor,
            message: "dropping what is before seq \(plan.newFrom)")
        outcome.newFrom = plan.newFrom
        var pieces = RetentionOutcome()
        try pruning.run(plan, dropping: { try dropPieces(record.id, &pieces) })
        outcome.dropped = pieces.dropped
        outcome.message = pieces.message
    }

    /// What goes up to an entry behind a snapshot; where somebody needs more, up to an older one. Nil where nothing goes.
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

    /// Each look takes about a second: the next round goes on with what is still to be looked through.
    private static let mostLooks = 300

    private func dropPieces(_ namespace: Int64, _ outcome: inout RetentionOutcome) throws {
        var looks = 0
        while true {
            if stops() {
                outcome.message = "stopped before everything was dropped"
                return
            }
            let dropped = try connection.dropPiece(of: namespace)
            outcome.dropped += dropped
            if dropped > 0 { continue }
            guard try connection.lookThroughLog(of: namespace) else { return }
            looks += 1
            if looks == Self.mostLooks {
                outcome.message = "stopped before everything was looked through"
                return
            }
        }
    }
}
