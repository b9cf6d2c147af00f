import LogStore
import Rules
import Runtime
import Tree

/// How a committer follows the log: what other gateways and commands have written.
extension Committer {
    func isAtHead(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) -> Bool {
        let known = namespace.snapshot
        guard let now = try connection.heads([namespace.id]).first else { return false }
        return now.head == known.seq && known.isOf(now.batch)
    }

    /// Takes the head's lock and brings the snapshot up to it; `isHeld` is false when that must be tried again. Also tells
    /// which batches the snapshot was brought up by.
    func lockHead(
        _ namespace: LiveNamespace, _ connection: LogConnection
    ) throws(LogStoreError) -> (isHeld: Bool, batches: [[UInt8]]) {
        let known = namespace.snapshot
        let head = try connection.lockHead(namespace.id, expectedHead: known.seq)
        // Whether the entry there is still the same, the commit will see.
        guard head != known.seq else { return (true, []) }
        // Reading under the lock sees all of it; a tree that has to be loaded anew needs a transaction of its own.
        let (history, entries) = try connection.readOn(namespace.id, after: known.seq)
        let isPlain = entries.allSatisfy { !$0.entry.isBulk && $0.entry.operation != .rules }
        guard history?.relation(of: known.seq, batch: known.batch) == .goesOn,
            entries.first?.entry.seq == known.seq + 1, isPlain
        else {
            connection.unlockHead()
            return (false, try follow(namespace, connection, to: head))
        }
        apply(entries, to: namespace)
        let batches = entries.map(\.batchID)
        guard namespace.snapshot.seq == head else {
            connection.unlockHead()
            return (false, batches)
        }
        return (true, batches)
    }

    /// Reads and applies what is in the log after the snapshot. Returns the batches that it came from. Where the log has
    /// another history than the snapshot is of, the namespace goes over to that.
    ///
    /// - Parameter head: where the log was said to end.
    func follow(
        _ namespace: LiveNamespace, _ connection: LogConnection, to head: Int64? = nil
    ) throws(LogStoreError) -> [[UInt8]] {
        var batches: [[UInt8]] = []
        var wasTakenBack = false
        while true {
            let known = namespace.snapshot
            let (history, logged) = try connection.readOn(namespace.id, after: known.seq)
            guard let history, history.relation(of: known.seq, batch: known.batch) != .takenBack else {
                guard !wasTakenBack else {
                    throw .corrupt(
                        "the head of namespace \"\(namespace.name)\" is of another batch than the log has there")
                }
                wasTakenBack = true
                try takeBack(namespace, connection)
                namespace.checked()
                continue
            }
            guard let first = logged.first else {
                // What there is was pruned; only the tree has it.
                if history.head > known.seq { try reload(namespace, connection) }
                namespace.checked(head, reaches: history.head)
                return batches
            }
            batches.append(contentsOf: logged.map(\.batchID))
            guard first.entry.seq == known.seq + 1, history.relation(of: known.seq, batch: known.batch) == .goesOn
            else {
                // The entries between are pruned.
                try reload(namespace, connection)
                continue
            }
            var entries: [LoggedEntry] = []
            for item in logged {
                guard item.entry.isBulk || item.entry.operation == .rules else {
                    entries.append(item)
                    continue
                }
                apply(entries, to: namespace)
                entries.removeAll()
                if item.entry.isBulk {
                    try applyBulk(item, to: namespace, connection)
                } else {
                    try applyRules(item, to: namespace, connection)
                }
            }
            apply(entries, to: namespace)
            core.metrics.followedEntries.add(logged.count)
        }
    }

    func apply(_ logged: [LoggedEntry], to namespace: LiveNamespace) {
        guard let last = logged.last else { return }
        var root = namespace.snapshot.root
        var steps: [Step] = []
        steps.reserveCapacity(logged.count)
        for item in logged {
            let before = root
            for change in item.entry.changes { root = root.replacing(change.path, with: change.value) }
            steps.append(Step(entry: item.entry, before: before, after: root, batch: item.batchID))
        }
        publish(
            steps, Snapshot(seq: last.entry.seq, root: root, rules: namespace.snapshot.rules, batch: last.batchID),
            in: namespace)
    }

    func publish(_ steps: [Step], _ snapshot: Snapshot, in namespace: LiveNamespace) {
        stretches.measure("listeners") { namespace.publish(steps, snapshot) }
        core.recent.note(namespace.id, snapshot)
    }

    private func applyRules(
        _ logged: LoggedEntry, to namespace: LiveNamespace, _ connection: LogConnection
    ) throws(LogStoreError) {
        let entry = logged.entry
        let root = namespace.snapshot.root
        let rules = version(try connection.rules(namespace.id, at: entry.seq), of: namespace.name)
        publish(
            [Step(entry: entry, before: root, after: root, batch: logged.batchID)],
            Snapshot(seq: entry.seq, root: root, rules: rules, batch: logged.batchID), in: namespace)
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
        _ logged: LoggedEntry, to namespace: LiveNamespace, _ connection: LogConnection
    ) throws(LogStoreError) {
        let entry = logged.entry
        let before = namespace.snapshot.root
        guard entry.operation == .load else {
            var changes = entry.changes
            try connection.forEachPart(namespace.id, of: entry.seq) { changes.append(contentsOf: $0) }
            let whole = Entry(
                seq: entry.seq, committedAt: entry.committedAt, operation: entry.operation, path: entry.path,
                changes: ApplicationOrder.sorted(changes), origin: entry.origin)
            return apply([LoggedEntry(entry: whole, batchID: logged.batchID)], to: namespace)
        }
        var application = BulkApplication(entry.changes, to: before)
        repeat {
            try connection.forEachPart(namespace.id, of: entry.seq) { (part) throws(LogStoreError) in
                application.take(part)
            }
        } while application.goesOn()
        let root = application.root
        let whole = Entry(
            seq: entry.seq, committedAt: entry.committedAt, operation: entry.operation, path: entry.path,
            changes: [Change(path: entry.path, value: root[entry.path])], isBulk: true)
        publish(
            [Step(entry: whole, before: before, after: root, batch: logged.batchID)],
            Snapshot(seq: entry.seq, root: root, rules: namespace.snapshot.rules, batch: logged.batchID), in: namespace)
    }
}
