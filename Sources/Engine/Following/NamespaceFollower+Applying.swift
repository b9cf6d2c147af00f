import LogStore
import Runtime
import Tree

/// How entries of the log get into a namespace: the tree after them, and what listeners are told.
extension NamespaceFollower {
    /// Entries in order, behind what the namespace has.
    ///
    /// - Parameter isWhole: whether the log has the entries as they are here.
    func apply(_ logged: [LoggedEntry], to namespace: LiveNamespace, isWhole: Bool = true) {
        guard let last = logged.last else { return }
        var root = namespace.snapshot.root
        var steps: [Step] = []
        steps.reserveCapacity(logged.count)
        for item in logged {
            let before = root
            root = root.replacing(item.entry.changes)
            steps.append(
                Step(
                    entry: item.entry, before: before, after: root, batch: item.batchID,
                    committedAt: isWhole ? item.entry.committedAt : nil))
        }
        publish(
            steps, Snapshot(seq: last.entry.seq, root: root, rules: namespace.snapshot.rules, batch: last.batchID),
            in: namespace)
    }

    func publish(_ steps: [Step], _ snapshot: Snapshot, in namespace: LiveNamespace) {
        stretches.measure("listeners") { namespace.publish(steps, snapshot) }
        namespace.grew(by: steps.reduce(0) { $0 + Self.roughBytes(of: $1.entry) })
        core.recent.note(namespace.id, snapshot)
    }

    /// About what the values of an entry take of memory.
    private static func roughBytes(of entry: Entry) -> Int {
        entry.changes.reduce(0) { $0 + roughBytes(of: $1) }
    }

    private static func roughBytes(of change: Change) -> Int {
        let text = if case .string(let text) = change.value { text.utf8.count } else { 0 }
        return text + change.value.rowCount * NamespaceMemory.bytesOfRow
    }

    func applyRules(
        _ logged: LoggedEntry, to namespace: LiveNamespace, _ connection: LogConnection
    ) throws(LogStoreError) {
        let entry = logged.entry
        let root = namespace.snapshot.root
        let rules = self.rules.version(try connection.rules(namespace.id, at: entry.seq), of: namespace.name)
        publish(
            [Step(entry: entry, before: root, after: root, batch: logged.batchID, committedAt: entry.committedAt)],
            Snapshot(seq: entry.seq, root: root, rules: rules, batch: logged.batchID), in: namespace)
    }

    /// An entry whose changes are in parts. Of a large write listeners see the changes themselves; of an import, which is
    /// read part by part, one change at its path.
    func applyBulk(
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
            return apply([LoggedEntry(entry: whole, batchID: logged.batchID)], to: namespace, isWhole: false)
        }
        var application = BulkApplication(entry.changes, to: before)
        var grown = 0
        repeat {
            try connection.forEachPart(namespace.id, of: entry.seq) { (part) throws(LogStoreError) in
                application.take(part)
                grown += part.reduce(0) { $0 + Self.roughBytes(of: $1) }
                core.memory.pack(&application, grown: &grown, of: namespace.memory)
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
