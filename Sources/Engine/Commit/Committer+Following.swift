import LogStore
import Rules
import Runtime
import Tree

/// How a committer follows the log: what other gateways and commands have written.
extension Committer {
    func isAtHead(_ namespace: LiveNamespace, _ session: LogSession) throws(LogStoreError) -> Bool {
        let known = namespace.snapshot.seq
        return try session.heads([namespace.id]).first.map { $0.head == known } ?? true
    }

    /// Takes the head's lock and brings the snapshot up to it; `isHeld` is false when that must be tried again. Also tells
    /// which batches the snapshot was brought up by.
    func lockHead(
        _ namespace: LiveNamespace, _ session: LogSession
    ) throws(LogStoreError) -> (isHeld: Bool, batches: [[UInt8]]) {
        let known = namespace.snapshot.seq
        let head = try session.lockHead(namespace.id, expectedHead: known)
        guard head != known else { return (true, []) }
        // Reading under the lock sees all of it; a tree that has to be loaded anew needs a transaction of its own.
        let entries = try session.read(namespace.id, after: known)
        let isPlain = entries.allSatisfy { !$0.entry.isBulk && $0.entry.operation != .rules }
        guard entries.first?.entry.seq == known + 1, isPlain else {
            session.unlockHead()
            return (false, try follow(namespace, session, to: head))
        }
        apply(entries.map(\.entry), to: namespace)
        let batches = entries.map(\.batchID)
        guard namespace.snapshot.seq == head else {
            session.unlockHead()
            return (false, batches)
        }
        return (true, batches)
    }

    /// Reads and applies what is in the log after the snapshot. Returns the batches that it came from.
    ///
    /// - Parameter head: where the log is said to end. Where it doesn't, entries are pruned, or the database is an older
    ///   one than before; only the tree itself can tell then.
    func follow(
        _ namespace: LiveNamespace, _ session: LogSession, to head: Int64? = nil
    ) throws(LogStoreError) -> [[UInt8]] {
        var batches: [[UInt8]] = []
        while true {
            let known = namespace.snapshot.seq
            let logged = try session.read(namespace.id, after: known)
            guard let first = logged.first else {
                if let head, head != known, batches.isEmpty { try reload(namespace, session) }
                return batches
            }
            batches.append(contentsOf: logged.map(\.batchID))
            guard first.entry.seq == known + 1 else {
                // The entries between are pruned.
                try reload(namespace, session)
                continue
            }
            var entries: [Entry] = []
            for item in logged {
                guard item.entry.isBulk || item.entry.operation == .rules else {
                    entries.append(item.entry)
                    continue
                }
                apply(entries, to: namespace)
                entries.removeAll()
                if item.entry.isBulk {
                    try applyBulk(item.entry, to: namespace, session)
                } else {
                    try applyRules(item.entry, to: namespace, session)
                }
            }
            apply(entries, to: namespace)
            core.metrics.followedEntries.add(logged.count)
        }
    }

    private func reload(_ namespace: LiveNamespace, _ session: LogSession) throws(LogStoreError) {
        let (head, root, stored) = try session.loadTree(namespace.id)
        namespace.reset(to: Snapshot(seq: head, root: root, rules: version(stored, of: namespace.name)))
    }

    func apply(_ entries: [Entry], to namespace: LiveNamespace) {
        guard let last = entries.last else { return }
        var root = namespace.snapshot.root
        var steps: [Step] = []
        steps.reserveCapacity(entries.count)
        for entry in entries {
            let before = root
            for change in entry.changes { root = root.replacing(change.path, with: change.value) }
            steps.append(Step(entry: entry, before: before, after: root))
        }
        stretches.measure("listeners") {
            namespace.publish(steps, Snapshot(seq: last.seq, root: root, rules: namespace.snapshot.rules))
        }
    }

    private func applyRules(
        _ entry: Entry, to namespace: LiveNamespace, _ session: LogSession
    ) throws(LogStoreError) {
        let root = namespace.snapshot.root
        let rules = version(try session.rules(namespace.id, at: entry.seq), of: namespace.name)
        namespace.publish(
            [Step(entry: entry, before: root, after: root)], Snapshot(seq: entry.seq, root: root, rules: rules))
    }

    /// Compiles stored rules. Rules that don't compile, which only a newer gateway can have stored, let nobody in.
    func version(_ stored: StoredRules?, of namespace: String) -> RulesVersion {
        guard let stored else { return core.settings.defaultRules }
        do throws(RulesError) {
            let compiled = stretches.measure("rules") {
                Result<RuleSet, RulesError> { () throws(RulesError) in try RuleSet(json: stored.source) }
            }
            return RulesVersion(seq: stored.seq, set: try compiled.get())
        } catch {
            core.logger.error(
                "the stored rules can't be used; nobody is let in",
                [("namespace", namespace), ("seq", "\(stored.seq)"), ("error", "\(error)")])
            return RulesVersion(seq: stored.seq, set: .denyAll)
        }
    }

    /// An entry whose changes are in parts. Of a large write listeners see the changes themselves; of an import, which is
    /// read part by part, one change at its path.
    private func applyBulk(
        _ entry: Entry, to namespace: LiveNamespace, _ session: LogSession
    ) throws(LogStoreError) {
        let before = namespace.snapshot.root
        guard entry.operation == .load else {
            var changes = entry.changes
            try session.forEachPart(namespace.id, of: entry.seq) { changes.append(contentsOf: $0) }
            let whole = Entry(
                seq: entry.seq, committedAt: entry.committedAt, operation: entry.operation, path: entry.path,
                changes: changes, origin: entry.origin)
            return apply([whole], to: namespace)
        }
        var root = before
        for change in entry.changes { root = root.replacing(change.path, with: change.value) }
        try session.forEachPart(namespace.id, of: entry.seq) { (changes) throws(LogStoreError) in
            for change in changes { root = root.replacing(change.path, with: change.value) }
        }
        let whole = Entry(
            seq: entry.seq, committedAt: entry.committedAt, operation: entry.operation, path: entry.path,
            changes: [Change(path: entry.path, value: root[entry.path])], isBulk: true)
        namespace.publish(
            [Step(entry: whole, before: before, after: root)],
            Snapshot(seq: entry.seq, root: root, rules: namespace.snapshot.rules))
    }
}
