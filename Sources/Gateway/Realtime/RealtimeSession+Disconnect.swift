import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension RealtimeSession {
    /// Changes the operations that are executed when the client disconnects. The rules check the change now, and again
    /// at execution. The change is saved before it is answered.
    ///
    /// - Parameters:
    ///   - changes: the changes for the rules to check; nil for a cancel, which is always permitted.
    ///   - change: modifies the operations.
    func changeOperations(
        _ number: Int64, _ changes: [Change]?, _ byteCount: Int,
        _ change: @escaping @Sendable (inout DisconnectQueue) -> Void
    ) {
        let share = operationsShare ?? context.memory.take(0, for: memoryAddress)
        operationsShare = share
        // The bytes of requests are added up. The exact size is measured only when the sum exceeds the limit, because
        // most operations replace earlier ones.
        let isToMeasure = (share?.bytes ?? 0) + byteCount > settings.maxMessageBytes
        guard let share, isToMeasure || share.grow(by: byteCount) else {
            return answer(number, "too_big", .text(Self.tooManyOperations))
        }
        let trial = OperationTrial(changes ?? [], namespace.snapshot, login.context, now: Clock.unixMilliseconds)
        let before = saving.operations
        let revision = saving.revision
        let make: @Sendable () -> ChangedOperations? = {
            guard trial.isAllowed() else { return nil }
            var queue = before
            change(&queue)
            return ChangedOperations(queue: queue, revision: revision, byteCount: isToMeasure ? queue.byteCount : nil)
        }
        let isCancel = changes == nil
        guard isToMeasure || trial.isHeavy(settings) else {
            return changed(number, make(), share, isCancel: isCancel)
        }
        onWorker(make) { session, made in session.changed(number, made, share, isCancel: isCancel) }
    }

    /// The operations after a request.
    private struct ChangedOperations: Sendable {
        let queue: DisconnectQueue
        /// The `DisconnectSaving.revision` of the operations before the request.
        let revision: Int
        /// The size in bytes, if it was measured.
        let byteCount: Int?
    }

    private static let tooManyOperations = "The onDisconnect operations are too large"

    /// - Parameter made: nil if the rules deny the change.
    private func changed(_ number: Int64, _ made: ChangedOperations?, _ share: MemoryShare, isCancel: Bool) {
        guard let made else { return answer(number, "permission_denied", .text("Permission denied")) }
        if !isCancel, namespace.isFollowing {
            return answer(number, "read_only", .text(EngineError.readOnly.description))
        }
        if let byteCount = made.byteCount, byteCount > settings.maxMessageBytes || !share.resize(to: byteCount) {
            return answer(number, "too_big", .text(Self.tooManyOperations))
        }
        guard made.queue.operations.count <= settings.maxDisconnectOperations else {
            return answer(number, "too_big", .text("Too many onDisconnect operations"))
        }
        if made.queue.isEmpty { operationsShare = nil }
        perform(saving.change(to: made.queue, since: made.revision, by: number))
    }

    /// Executes the effects of `DisconnectSaving`.
    func perform(_ effects: [DisconnectSaving.Effect]) {
        for effect in effects {
            switch effect {
            case .save(let save): begin(save)
            case .accept(let number): answer(number, "ok", .none)
            case .refuse(let number):
                answer(number, "unavailable", .text("The service is unavailable. Try again later."))
            case .close: close()
            }
        }
    }

    private func begin(_ save: DisconnectSaving.Save) {
        engine.disconnects.save(stored, number: save.number, isFirst: save.isFirst) {
            [sessionLoop = host.sessionLoop, id] outcome in
            sessionLoop.post(to: id) { $0.saveEnded(outcome) }
        }
    }

    private func saveEnded(_ outcome: SaveOutcome) {
        perform(saving.saveEnded(outcome))
        closeIfDone()
        performWaiting()
    }

    /// The session with the operations that are executed at its end.
    var stored: DisconnectOperations {
        DisconnectOperations(
            id: id, namespace: namespace, lease: lease,
            // Operations of an earlier login of this session; no viewer's operation is executed.
            operations: login.context.isViewer ? [] : saving.operations.operations.map(\.changes),
            auth: login.context, origin: login.origin(via: .ws, address: remoteAddress))
    }
}

/// Checks onDisconnect operations against the rules as if they were executed now. Any thread.
struct OperationTrial: Sendable {
    private let changes: [Change]
    private let snapshot: Snapshot
    private let auth: AuthContext
    private let now: Int64

    init(_ changes: [Change], _ snapshot: Snapshot, _ auth: AuthContext, now: Int64) {
        self.changes = changes
        self.snapshot = snapshot
        self.auth = auth
        self.now = now
    }

    /// Returns whether the check takes too long for a loop.
    func isHeavy(_ settings: GatewaySettings) -> Bool {
        var rows = changes.count
        for change in changes {
            rows += change.value.rowCount
            if rows > settings.heavyRows { return true }
        }
        return false
    }

    func isAllowed() -> Bool {
        if changes.isEmpty || auth.isAdmin { return true }
        let rules = snapshot.rules.set
        let paths = changes.lazy.map(\.path)
        if rules.refusal(of: paths, root: snapshot.root, auth: auth, now: now) != nil { return false }
        var root = snapshot.root
        for change in changes {
            root = root.replacing(
                change.path, with: change.value.resolved(existing: root[change.path], timestamp: now))
        }
        return rules.mayWrite(paths, root: snapshot.root, newRoot: root, auth: auth, now: now).isAllowed
    }
}
