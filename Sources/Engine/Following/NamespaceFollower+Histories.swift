import LogStore
import Runtime
import Tree

/// What is done when the database has another history of a namespace than this gateway has followed: it failed
/// over to a standby that had not received everything, or a backup was restored.
extension NamespaceFollower {
    /// Makes the namespace what the database says it is, and says how much is gone. The listeners begin again.
    func takeBack(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) {
        let lost = namespace.snapshot
        let common = try lastCommon(namespace, connection)
        try reload(namespace, connection)
        core.noteOtherHistory()
        let now = namespace.snapshot
        core.metrics.takenBack.add()
        let first = common.map { $0 + 1 } ?? min(lost.seq, now.seq + 1)
        let count = lost.seq - first + 1
        core.metrics.takenBackEntries.add(Int(max(0, count)))
        core.logger.error(
            "THE DATABASE HAS LOST ENTRIES: this gateway had them, and has gone back to what the database has",
            [
                ("namespace", namespace.name), ("lost", "\(first)...\(lost.seq)"),
                ("entries", common == nil ? "at least \(count)" : "\(count)"), ("head", "\(now.seq)"),
            ])
    }

    /// The newest entry that this gateway remembers and the database still has; nil if it has none of them.
    private func lastCommon(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) -> Int64? {
        let recent = core.recent.of(namespace.id)
        let stored = try connection.batches(namespace.id, at: recent.map(\.seq))
        return recent.first { stored[$0.seq] == $0.batch }?.seq
    }

    /// Reads the tree anew. Where the namespace isn't there any more, or its id is another's now, it ends here.
    func reload(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) {
        guard let record = try connection.namespace(id: namespace.id),
            Array(record.streamKey.utf8) == namespace.streamKey
        else {
            let hasMoved = try connection.hasMoved(namespace.id)
            core.namespaces.forget(namespace)
            // Of one that has moved, whoever reads right now sees what was there, and whoever comes again finds it elsewhere.
            let isNews = namespace.end(
                with: hasMoved
                    ? namespace.snapshot : Snapshot(seq: 0, root: .null, rules: core.settings.defaultRules),
                hasMoved ? .moving : .unknownNamespace(namespace.name))
            // Several may find it at once.
            guard isNews else { throw .unknownNamespace(namespace.name) }
            let key = String(decoding: namespace.streamKey, as: UTF8.self)
            if try connection.wasRemoved(namespace.id, streamKey: key) {
                core.logger.notice(
                    hasMoved ? "namespace moved to another database" : "namespace removed",
                    [("namespace", namespace.name)])
            } else {
                core.noteOtherHistory()
                core.logger.error(
                    "THE DATABASE HAS LOST A NAMESPACE: this gateway had it", [("namespace", namespace.name)])
            }
            throw .unknownNamespace(namespace.name)
        }
        var packedAt: Int?
        // What is being read counts beside what there is.
        let memory = NamespaceMemory(in: core.memory.total)
        let loaded = try connection.loadTree(namespace.id) { progress in
            // Nobody waits for the rest when the gateway stops.
            if core.stopsNow { return .end }
            memory.loading(bytes: progress.heapBytes)
            core.memory.makeRoom(core.health)
            return core.memory.step(progress, packedAt: &packedAt)
        }
        guard let loaded else { throw .stopped }
        let version = rules.version(loaded.rules, of: namespace.name)
        let tree = core.memory.settle(loaded, version, memory, packedAt: &packedAt, core.health)
        let snapshot = Snapshot(seq: loaded.head, root: tree.root, rules: version, batch: loaded.batch)
        if packedAt != nil { namespace.memory.notePages() }
        namespace.reset(to: snapshot, isInPages: tree.isInPages)
        core.recent.note(namespace.id, snapshot)
    }
}
