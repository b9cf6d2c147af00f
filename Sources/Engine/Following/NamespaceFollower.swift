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
        rules = StoredRulesCompiler(core.settings.defaultRules, core.rules, stretches, core.logger)
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
        var log = LogFollower(namespace.id, at: namespace.snapshot.cursor) {
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
                    // Retention removed the entry after it was read, or the log is damaged; only the tree has what the entry made.
                    try reload(namespace, connection)
                    log.restart(at: namespace.snapshot.cursor)
                }
            case .rules(let logged):
                batches.append(logged.batchID)
                try applyRules(logged, to: namespace, connection)
            case .missing(_, let read):
                // The entries between were pruned; only the tree has what they made.
                batches.append(contentsOf: read.map(\.batchID))
                try reload(namespace, connection)
                log.restart(at: namespace.snapshot.cursor)
            case .takenBack:
                guard !wasTakenBack else {
                    throw .corrupt(
                        "the head of namespace \"\(namespace.name)\" is of another batch than the log has there")
                }
                wasTakenBack = true
                try takeBack(namespace, connection)
                namespace.checked()
                log.restart(at: namespace.snapshot.cursor)
            case .end(let end):
                namespace.checked(head, reaches: end)
                return batches
            }
        }
    }
}
