import Engine
import Rules
import Tree

/// Judges operations that a client wants to be executed at its end as if that were now. Any thread.
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

    /// Whether it takes too long for a loop.
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
