import LogStore
import Postgres
import Tree

/// The tree as of one entry, with which a history begins, or goes on where the log does not say what happened.
struct HistoryGround {
    let seq: Int64
    /// When that entry was committed.
    let at: Int64?
    let batch: [UInt8]?
    /// Visits its records, each with the stamp of its row where that is not the ground's.
    let each: ((_ keys: [Key], _ record: Node, _ known: EntryStamp?) throws -> Void) throws -> Void
    /// The records with some keys.
    let values: ([[Key]]) throws -> [Node]

    var stamp: EntryStamp { EntryStamp(seq: seq, at: at, author: nil, isBegin: true) }
}

extension HistoryBuilder {
    /// Whether the log goes on from where a history is.
    func goesOn(_ old: MirrorCursor) throws -> Bool {
        guard let record = try source.namespace(id: mirror.namespaceID) else { throw isGone }
        let relation = try source.history(record.id, at: old.seq)?.relation(of: old.seq, batch: old.batch)
        return relation != .takenBack && record.retainedFrom <= old.seq + 1
    }

    /// Stores the tree with which the history begins as the first versions.
    func beginVersions() throws -> HistoryGround {
        try onGround { ground in
            try self.inSnapshot {
                // An interrupted beginning has left some.
                _ = try self.target.pipeline([self.versions.forgetStep()])
                let projector = Projector(self.definition)
                var slice = VersionSlice(self.versions, self.target)
                try ground.each { keys, record, known in
                    guard projector.holds(keys) else { return }
                    try slice.add((known ?? ground.stamp).record(RecordKey.text(keys), record))
                }
                try slice.store()
            }
        }
    }

    /// Takes back what the log contradicts, and says as of the ground what is different there from what is known, in the
    /// transaction that is open.
    func reconcileVersions() throws -> HistoryGround {
        try onGround { ground in
            try HistoryReconciliation(self.target, self.versions, self.definition, ground).run()
        }
    }

    /// Does something with the ground while the tree's snapshot is open, and no longer.
    private func onGround(_ body: (HistoryGround) throws -> Void) throws -> HistoryGround {
        guard let record = try source.beginSnapshot(mirror.namespaceID) else { throw isGone }
        defer { source.endSnapshot() }
        // Who only wants the removals from now on has no use for the past.
        let ground = definition.keeps == .latest ? try groundNow(record) : try groundBefore(record)
        try body(ground)
        return ground
    }

    private var isGone: MirrorError { .refused("The namespace \"\(mirror.namespace)\" is gone.") }

    /// The tree of before the oldest entry that the log has.
    private func groundBefore(_ record: NamespaceRecord) throws -> HistoryGround {
        let oldest = record.retainedFrom - 1
        let pattern = definition.pattern
        guard oldest > 0 else {
            return HistoryGround(
                seq: 0, at: nil, batch: try source.history(record.id, at: 0)?.batch(of: 0), each: { _ in },
                values: { $0.map { _ in .null } })
        }
        var tree = try past(record, oldest)
        let seq = max(oldest, tree.seq)
        try tree.advance(to: seq)
        let past = tree
        return HistoryGround(
            seq: seq, at: try source.entryTime(record.id, seq),
            batch: try source.history(record.id, at: seq)?.batch(of: seq),
            each: { body in
                // It counts for as long as it is read.
                try withExtendedLifetime(past) {
                    try RecordChange.each(in: past.root, pattern, part: 0, []) { keys, record in
                        try body(keys, record, nil)
                    }
                }
            }, values: { some in withExtendedLifetime(past) { some.map { past.root[pattern.path(of: $0)] } } })
    }

    private func past(_ record: NamespaceRecord, _ seq: Int64) throws -> PastTree {
        do {
            return try PastTree(source, record, for: seq, within: definition.pattern.base, in: room)
        } catch ReplayError.notRetained(_, let oldest) {
            return try PastTree(source, record, for: oldest, within: definition.pattern.base, in: room)
        }
    }

    /// The tree as it is.
    private func groundNow(_ record: NamespaceRecord) throws -> HistoryGround {
        let (source, pattern, namespace) = (source, definition.pattern, record.id)
        return HistoryGround(
            seq: record.head, at: try source.entryTime(namespace, record.head),
            batch: try source.history(namespace, at: record.head)?.batch(of: record.head),
            each: { body in
                var seqs: Set<Int64> = []
                try RecordStream.versions(namespace, pattern, above: [], source) { seqs.insert($0) }
                var times: [Int64: Int64] = [:]
                for some in Array(seqs).chunked(10_000) {
                    times.merge(try source.commitTimes(namespace, some)) { $1 }
                }
                // A removed field leaves no version in the tree, so the former row's `_seq` may be higher than the tree shows. All rows
                // therefore get the seq of the fill.
                let head = record.head
                try RecordStream.read(namespace, pattern, above: [], source) { keys, value, version in
                    try body(keys, value, EntryStamp(seq: head, at: times[version], author: nil, isBegin: true))
                }
            },
            values: { some in try source.readSubtrees(namespace, some.map { pattern.path(of: $0) }).map(\.value) })
    }
}
