import LogStore
import Runtime
import Tree

/// Reads the trees of namespaces that come into use. The connection is its caller's.
struct NamespaceLoader {
    let core: EngineCore
    let rules: StoredRulesCompiler

    init(_ core: EngineCore, _ stretches: StretchMeter) {
        self.core = core
        rules = StoredRulesCompiler(core.settings.defaultRules, stretches, core.logger)
    }

    /// The namespace as it is now; nil where there is none. Where the settings say so it is made.
    func load(_ name: String, _ connection: LogConnection) throws(LogStoreError) -> LiveNamespace? {
        guard let record = try connection.namespace(named: name, creating: core.settings.createsNamespaces) else {
            return nil
        }
        let start = Clock.monotonicMilliseconds
        let (head, root, stored, batch) = try connection.loadTree(record.id)
        let snapshot = Snapshot(seq: head, root: root, rules: rules.version(stored, of: name), batch: batch)
        core.logger.info(
            "namespace loaded",
            [
                ("namespace", name), ("head", "\(head)"), ("rows", "\(root.rowCount)"),
                ("milliseconds", "\(Clock.monotonicMilliseconds - start)"),
            ])
        core.recent.note(record.id, snapshot)
        let core = core
        return LiveNamespace(
            record, snapshot, core.settings, health: core.health, schedule: { core.add(.work($0)) },
            prepare: { core.large.add($0, in: $1) })
    }
}
