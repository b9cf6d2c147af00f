import LogStore
import Rules
import Tree

/// Applies queued writes to a tree, one after another, and gathers what a batch needs. Pure.
///
/// A write that fails its precondition or is denied fails alone: those after it see the tree as if it had not been.
struct Evaluation {
    private(set) var root: Node
    private(set) var head: Int64
    private(set) var rules: RulesVersion
    private(set) var newRules: [StoredRules] = []
    private(set) var claims: [String] = []
    private(set) var records: [Batch.Record] = []
    private(set) var rows = RowDiff(RowChanges())
    private(set) var steps: [Step] = []
    private(set) var outcomes: [WriteOutcome] = []

    let timestamp: Int64
    /// Whether anybody will want to know the way from the first tree to the last. Without listeners it would only keep
    /// alive what is freed again a moment later.
    let keepsSteps: Bool

    init(_ snapshot: Snapshot, timestamp: Int64, keepsSteps: Bool = true) {
        self.keepsSteps = keepsSteps
        root = snapshot.root
        head = snapshot.seq
        rules = snapshot.rules
        self.timestamp = timestamp
    }

    mutating func apply(_ write: Write) {
        if let expected = write.expectedHash {
            let current = root[write.path]
            guard current.hash == expected else {
                outcomes.append(.preconditionFailed(seq: head, current: current))
                return
            }
        }
        var changes: [Change]
        switch write.action {
        case .set(let path, let node): changes = [Change(path: path, value: node)]
        case .update(_, let several): changes = several
        case .rules(let set): return adopt(set, write)
        case .disconnect(let session, let orders): return disconnect(session, orders, write)
        }
        if write.hasServerValue {
            changes = changes.map { change in
                Change(
                    path: change.path, value: change.value.resolved(existing: root[change.path], timestamp: timestamp))
            }
        }
        if let problem = priorityProblem(changes) {
            outcomes.append(.refused(problem))
            return
        }
        let before = root
        var after = root
        for change in changes { after = after.replacing(change.path, with: change.value) }
        // An administrator is asked nothing, not even which paths.
        if !write.auth.isAdmin {
            let decision = rules.set.mayWrite(
                changes.map(\.path), root: before, newRoot: after, auth: write.auth, now: timestamp)
            if case .denied(let denial) = decision {
                outcomes.append(.denied(denial))
                return
            }
        }
        commit(write, changes, before: before, after: after)
    }

    private mutating func disconnect(_ session: String, _ orders: [[Change]], _ write: Write) {
        let before = outcomes
        for changes in orders {
            let action: Write.Action =
                changes.count == 1 ? .set(changes[0].path, changes[0].value) : .update(base: .root, changes)
            apply(
                Write(
                    action, operation: .disconnect, hasServerValue: write.hasServerValue, byteCount: 0,
                    auth: write.auth, origin: write.origin))
        }
        claims.append(session)
        outcomes = before + [.committed(seq: head, changes: [])]
    }

    /// New rules hold for the writes behind them, in this batch already.
    private mutating func adopt(_ set: RuleSet, _ write: Write) {
        head += 1
        rules = RulesVersion(seq: head, set: set)
        newRules.append(StoredRules(seq: head, source: set.source))
        records.append(
            Batch.Record(operation: .rules, path: .root, changes: ChangeCodec.encode([]), origin: write.origin))
        let entry = Entry(
            seq: head, committedAt: timestamp, operation: .rules, path: .root, changes: [], origin: write.origin)
        steps.append(Step(entry: entry, before: root, after: root))
        outcomes.append(.committed(seq: head, changes: []))
    }

    /// The state after the writes so far.
    var snapshot: Snapshot { Snapshot(seq: head, root: root, rules: rules) }

    /// A priority can't be given to what isn't there (reference: rtdb-protocol 4.4).
    private func priorityProblem(_ changes: [Change]) -> String? {
        for change in changes where change.path.namesPriority && !change.value.isNull {
            guard let parent = change.path.parent, root[parent].isNull else { continue }
            let isMade = changes.contains { change in
                !change.path.namesPriority && !change.value.isNull
                    && (change.path.contains(parent) || parent.contains(change.path))
            }
            if !isMade { return "There is nothing at \(parent) that could have a priority." }
        }
        return nil
    }

    private mutating func commit(_ write: Write, _ changes: [Change], before: Node, after: Node) {
        // An update of nothing is no write.
        guard !changes.isEmpty else {
            outcomes.append(.committed(seq: head, changes: []))
            return
        }
        head += 1
        rows.sink.seq = head
        var current = before
        for change in changes {
            let next = changes.count == 1 ? after : current.replacing(change.path, with: change.value)
            rows.compare(current, next, changedAt: change.path)
            current = next
        }
        root = after
        records.append(
            Batch.Record(
                operation: write.operation, path: write.path, changes: ChangeCodec.encode(changes),
                origin: write.origin))
        if keepsSteps {
            let entry = Entry(
                seq: head, committedAt: timestamp, operation: write.operation, path: write.path, changes: changes,
                origin: write.origin)
            steps.append(Step(entry: entry, before: before, after: after))
        }
        outcomes.append(.committed(seq: head, changes: changes))
    }
}
