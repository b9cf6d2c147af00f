import LogStore
import Runtime
import Tree

/// Loads the trees of requested namespaces. The caller provides the connection.
struct NamespaceLoader {
    enum Outcome {
        case loaded(LiveNamespace)
        case failed(EngineError)
        /// The namespace is large, and has to wait for other large ones.
        case postponed
        /// The rules refused every request that waited for the namespace, and more requests have arrived since.
        case askedAgain
        /// The rules refused every request that waited for the namespace, and no request waits any more.
        case refused
    }

    private let core: EngineCore
    private let host: NamespaceHost
    private let rules: StoredRulesCompiler
    private let follower: NamespaceFollower

    /// A tree of more rows than this is large.
    private static let largeRows = 50_000

    init(_ core: EngineCore, _ host: NamespaceHost, _ stallMeters: StallMeter) {
        self.core = core
        self.host = host
        rules = StoredRulesCompiler(core.settings.defaultRules, core.rules, stallMeters, core.logger)
        follower = NamespaceFollower(core, stallMeters)
    }

    /// Loads the namespace, and creates it first if the settings allow that. Heads announced since before the tree was
    /// read are kept until the caller takes them.
    func load(_ job: inout LoadQueue.Job, _ connection: LogConnection) throws(LogStoreError) -> Outcome {
        let name = job.name
        var found = try connection.namespace(named: name, creating: core.settings.createsNamespaces)
        if found == nil {
            if try connection.livesElsewhere(name) { return .failed(.moving) }
            // The namespace was moving to this database, and has arrived since the first query.
            found = try connection.namespace(named: name)
        }
        guard let record = found else { return .failed(.unknownNamespace(name)) }
        switch try refuse(record, connection) {
        case .continues: break
        case .judgesAgain: return .askedAgain
        case .ends: return .refused
        }
        core.namespaces.watchAnnouncements(of: record.id)
        var isKept = false
        defer { if !isKept { _ = core.namespaces.takeAnnounced(of: record.id) } }
        let start = Clock.monotonicNanoseconds
        let memory = NamespaceMemory(in: core.memory.total)
        var pagedAt: Int?
        let loaded = try connection.loadTree(record.id) { progress in
            // The rest is not needed when the gateway stops.
            if core.stopsNow { return .end }
            // The tree counts while it is being read, and may need memory.
            memory.loading(bytes: progress.heapBytes)
            core.memory.makeRoom(core.health)
            guard progress.rows < Self.largeRows || core.loads.becomesLarge(&job) else { return .end }
            return core.memory.step(progress, pagedAt: &pagedAt)
        }
        guard let loaded else { return .postponed }
        let version = rules.version(loaded.rules, of: name)
        let root = core.memory.settle(loaded, version, memory, pagedAt: &pagedAt, core.health).root
        if pagedAt != nil { memory.notePages() }
        let head = loaded.head
        let snapshot = Snapshot(seq: head, root: root, rules: version, batch: loaded.batch)
        let namespace = LiveNamespace(record, snapshot, core.settings, memory: memory, health: core.health, host: host)
        // A request may not find the namespace older than a commit from before the request, and reading a large tree
        // takes long.
        let milliseconds = Milliseconds((Clock.monotonicNanoseconds - start) / 1_000_000)
        if core.namespaces.announcedHead(of: record.id) > head || milliseconds >= core.settings.pollMilliseconds {
            _ = try follower.follow(namespace, connection)
        }
        note(namespace, nanoseconds: Clock.monotonicNanoseconds - start)
        isKept = true
        return .loaded(namespace)
    }

    /// Answers the waiting requests that the stored rules refuse independently of the tree. The tree is read if a
    /// request remains.
    ///
    /// The requests are counted before the rules are read, so that no request is judged by rules that were replaced
    /// before it arrived.
    private func refuse(
        _ record: NamespaceRecord, _ connection: LogConnection
    ) throws(LogStoreError) -> NamespaceTable.AfterRefusals {
        let count = core.namespaces.countRefusable(record.name)
        guard count > 0, let found = try connection.rulesAtHead(record.id, named: record.name) else {
            return .continues
        }
        return core.namespaces.refuse(count, of: record.name, by: rules.version(found.rules, of: record.name))
    }

    private func note(_ namespace: LiveNamespace, nanoseconds: UInt64) {
        let snapshot = namespace.snapshot
        core.metrics.loads.add()
        core.metrics.loadSeconds.observe(Double(nanoseconds) / 1e9)
        core.logger.info(
            "namespace loaded",
            [
                ("namespace", namespace.name), ("head", "\(snapshot.seq)"), ("rows", "\(snapshot.root.rowCount)"),
                ("bytes", "\(namespace.memory.bytes)"), ("milliseconds", "\(nanoseconds / 1_000_000)"),
            ])
        core.recent.note(namespace.id, snapshot)
    }
}
