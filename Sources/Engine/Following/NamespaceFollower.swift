import LogStore
import Runtime
import Tree

/// Brings the namespaces of one committer up to the log: what other gateways and commands have written. The connection is its
/// caller's. Only for a thread that works on the namespace.
struct NamespaceFollower {
    let core: EngineCore
    let stretches: StretchMeter
    let rules: StoredRulesCompiler

    init(_ core: EngineCore, _ stretches: StretchMeter) {
        self.core = core
        self.stretches = stretches
        rules = StoredRulesCompiler(core.settings.defaultRules, stretches, core.logger)
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
}
