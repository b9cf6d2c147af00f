import LogStore
import Runtime
import Tree

/// Applies log entries of other gateways and commands to the namespaces of one committer. The caller provides the
/// connection. Only for a thread that works on the namespace.
struct NamespaceFollower {
    let core: EngineCore
    let stallMeters: StallMeter
    let rules: StoredRulesCompiler

    init(_ core: EngineCore, _ stallMeters: StallMeter) {
        self.core = core
        self.stallMeters = stallMeters
        rules = StoredRulesCompiler(core.settings.defaultRules, core.rules, stallMeters, core.logger)
    }

    /// Reads and applies the log after the snapshot, and returns the batches of the applied entries. If the log has
    /// another history than the snapshot, the namespace is reloaded from that history.
    ///
    /// - Parameter head: the reported end of the log.
    func follow(
        _ namespace: LiveNamespace, _ connection: LogConnection, to head: Int64? = nil
    ) throws(LogStoreError) -> [[UInt8]] {
        var batches: [[UInt8]] = []
        var wasRolledBack = false
        var log = LogFollower(namespace.id, at: namespace.snapshot.position) {
            $0.checksHistory = true
            $0.separatesKinds = true
        }
        while true {
            switch try log.next(on: connection) {
            case .entries(let entries):
                batches.append(contentsOf: entries.map(\.batchID))
                apply(entries, to: namespace)
            case .bulk(let logged):
                batches.append(logged.batchID)
                do throws(LogStoreError) {
                    try applyBulk(logged, to: namespace, connection)
                } catch .partMissing {
                    // Retention removed the entry after it was read, or the log is damaged. Only the stored tree
                    // contains the entry's result.
                    try reload(namespace, connection)
                    log.restart(at: namespace.snapshot.position)
                }
            case .rules(let logged):
                batches.append(logged.batchID)
                try applyRules(logged, to: namespace, connection)
            case .missing(_, let read):
                // The entries in between were pruned. Only the stored tree contains their result.
                batches.append(contentsOf: read.map(\.batchID))
                try reload(namespace, connection)
                log.restart(at: namespace.snapshot.position)
            case .rolledBack:
                guard !wasRolledBack else {
                    throw .corrupt(
                        "the head of namespace \"\(namespace.name)\" names another batch than the log")
                }
                wasRolledBack = true
                try rollBack(namespace, connection)
                namespace.checked()
                log.restart(at: namespace.snapshot.position)
            case .end(let end):
                namespace.checked(head, reaches: end)
                return batches
            }
        }
    }
}

/// How log entries get into a namespace: the tree after them, and the steps for listeners.
extension NamespaceFollower {
    /// Applies entries in order after the namespace's snapshot.
    ///
    /// - Parameter isWhole: whether the entries here are complete as stored in the log.
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
        stallMeters.measure("listeners") { namespace.publish(steps, snapshot) }
        namespace.grew(by: steps.reduce(0) { $0 + Self.roughBytes(of: $1.entry) })
        core.recent.note(namespace.id, snapshot)
    }

    /// Approximate bytes of memory for the values of an entry.
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

    /// Applies an entry whose changes are stored in parts. For a large write, listeners get the changes themselves; for
    /// an import, which is read part by part, they get one change at its path.
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
                core.memory.pageOut(&application, grown: &grown, of: namespace.memory)
            }
        } while application.beginNextPass()
        let root = application.root
        let whole = Entry(
            seq: entry.seq, committedAt: entry.committedAt, operation: entry.operation, path: entry.path,
            changes: [Change(path: entry.path, value: root[entry.path])], isBulk: true)
        publish(
            [Step(entry: whole, before: before, after: root, batch: logged.batchID)],
            Snapshot(seq: entry.seq, root: root, rules: namespace.snapshot.rules, batch: logged.batchID), in: namespace)
    }
}

/// Checks whether a namespace is at the head, and moves it there under the head's lock.
extension NamespaceFollower {
    func isAtHead(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) -> Bool {
        let known = namespace.snapshot
        guard let head = try connection.heads([namespace.id]).first?.head else { return false }
        return head.seq == known.seq && known.isOf(head.batch)
    }

    /// Takes the head's lock and applies the log up to the head. `isHeld` is false if the caller must try again.
    /// Also returns the batches of the applied entries.
    func lockHead(
        _ namespace: LiveNamespace, _ connection: LogConnection
    ) throws(LogStoreError) -> (isHeld: Bool, batches: [[UInt8]]) {
        let known = namespace.snapshot
        let head: Int64
        do throws(LogStoreError) {
            head = try connection.lockHead(namespace.id, expectedHead: known.seq)
        } catch {
            // The reload finds out why the namespace is missing, logs that, and ends the namespace here.
            if case .unknownNamespace = error { try reload(namespace, connection) }
            throw error
        }
        // The commit checks whether the entry at the head is still the same.
        guard head != known.seq else { return (true, []) }
        // A read under the lock sees the whole log. A tree that has to be reloaded needs a transaction of its own.
        var log = LogFollower(namespace.id, at: known.position) { $0.checksHistory = true }
        let event: LogEvent
        do throws(LogStoreError) {
            event = try log.next(on: connection)
        } catch {
            // No other code knows that the lock is held: it would block all writers until the server ends the
            // transaction.
            if connection.isOpen { connection.unlockHead() }
            throw error
        }
        guard case .entries(let entries) = event, entries.allSatisfy(\.isPlain) else {
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
}

/// Handles a database whose history of a namespace differs from the one that this gateway followed: the database failed
/// over to a standby that lacked entries, or a backup was restored.
extension NamespaceFollower {
    /// Reloads the namespace from the database and logs how many entries were lost. The listeners restart.
    func rollBack(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) {
        let lost = namespace.snapshot
        let common = try lastCommon(namespace, connection)
        try reload(namespace, connection)
        core.noteOtherHistory()
        let now = namespace.snapshot
        core.metrics.rolledBack.add()
        let first = common.map { $0 + 1 } ?? min(lost.seq, now.seq + 1)
        let count = lost.seq - first + 1
        core.metrics.rolledBackEntries.add(Int(max(0, count)))
        core.logger.error(
            "THE DATABASE HAS LOST ENTRIES that this gateway had: the gateway has reloaded the namespace",
            [
                ("namespace", namespace.name), ("lost", "\(first)...\(lost.seq)"),
                ("entries", common == nil ? "at least \(count)" : "\(count)"), ("head", "\(now.seq)"),
            ])
    }

    /// Returns the newest entry that this gateway remembers and the database still has; nil if there is none.
    private func lastCommon(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) -> Int64? {
        let recent = core.recent.of(namespace.id)
        let stored = try connection.batches(namespace.id, at: recent.map(\.seq))
        return recent.first { stored[$0.seq] == $0.batch }?.seq
    }

    /// Reloads the tree. If the namespace no longer exists or its id belongs to another one, the namespace ends here.
    func reload(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) {
        guard let record = try connection.namespace(id: namespace.id),
            Array(record.streamKey.utf8) == namespace.streamKey
        else {
            let hasMoved = try connection.hasMoved(namespace.id)
            core.namespaces.forget(namespace)
            // If the namespace has moved, current readers still see its last state, and later requests are served by
            // the other database.
            let isNews = namespace.end(
                with: hasMoved
                    ? namespace.snapshot : Snapshot(seq: 0, root: .null, rules: core.settings.defaultRules),
                hasMoved ? .moving : .unknownNamespace(namespace.name))
            // Several threads may find this at the same time.
            guard isNews else { throw .unknownNamespace(namespace.name) }
            let key = String(decoding: namespace.streamKey, as: UTF8.self)
            if try connection.wasRemoved(namespace.id, streamKey: key) {
                core.logger.notice(
                    hasMoved ? "namespace moved to another database" : "namespace removed",
                    [("namespace", namespace.name)])
            } else {
                core.noteOtherHistory()
                core.logger.error(
                    "THE DATABASE HAS LOST A NAMESPACE that this gateway had", [("namespace", namespace.name)])
            }
            throw .unknownNamespace(namespace.name)
        }
        var pagedAt: Int?
        // The tree being read counts in addition to the present one.
        let memory = NamespaceMemory(in: core.memory.total)
        let loaded = try connection.loadTree(namespace.id) { progress in
            // The rest is not needed when the gateway stops.
            if core.stopsNow { return .end }
            memory.loading(bytes: progress.heapBytes)
            core.memory.makeRoom(core.health)
            return core.memory.step(progress, pagedAt: &pagedAt)
        }
        guard let loaded else { throw .stopped }
        let version = rules.version(loaded.rules, of: namespace.name)
        let tree = core.memory.settle(loaded, version, memory, pagedAt: &pagedAt, core.health)
        let snapshot = Snapshot(seq: loaded.head, root: tree.root, rules: version, batch: loaded.batch)
        if pagedAt != nil { namespace.memory.notePages() }
        namespace.following = record.following
        namespace.reset(to: snapshot, isInPages: tree.isInPages)
        core.recent.note(namespace.id, snapshot)
    }
}
