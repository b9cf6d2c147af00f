import LogStore
import Postgres
import Tree

/// The tree at one log position: the base with which a history begins, or continues where the log has a gap.
struct HistoryBase {
    let position: LogPosition
    /// The commit time of the entry before the position in Unix milliseconds, or nil if unknown.
    let at: Int64?
    /// Visits the base's records, each with the stamp of its row if that differs from the base's stamp.
    let each: ((_ keys: [Key], _ record: Node, _ known: EntryStamp?) throws -> Void) throws -> Void
    /// Returns the records with the given keys.
    let values: ([[Key]]) throws -> [Node]

    var seq: Int64 { position.seq }
    var stamp: EntryStamp { EntryStamp(seq: seq, at: at, author: nil, isBegin: true) }
}

extension HistoryBuilder {
    /// Whether the log continues from a history's position: its entry was not rolled back, and the next one was not pruned.
    func continues(_ old: MirrorCursor) throws -> Bool {
        guard let record = try source.namespace(id: mirror.namespaceID) else { throw isGone }
        let relation = try source.history(record.id, at: old.seq)?.relation(of: old.position)
        return relation != .rolledBack && record.retainedFrom <= old.seq + 1
    }

    /// Stores the base's records as the history's first versions.
    func beginVersions() throws -> HistoryBase {
        try onGround { ground in
            try self.inSnapshot {
                // An interrupted attempt may have left some versions.
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

    /// Removes versions that the log contradicts, and stores the differences between the base and the newest versions at the
    /// base's position, in the open transaction.
    func reconcileVersions() throws -> HistoryBase {
        try onGround { ground in
            try HistoryReconciliation(self.target, self.versions, self.definition, ground).run()
        }
    }

    /// Calls `body` with the base while the snapshot of the tree is open.
    private func onGround(_ body: (HistoryBase) throws -> Void) throws -> HistoryBase {
        guard let record = try source.beginSnapshot(mirror.namespaceID) else { throw isGone }
        defer { source.endSnapshot() }
        // A mirror that keeps only removed records does not need the past.
        let ground = definition.keeps == .latest ? try groundNow(record) : try groundBefore(record)
        try body(ground)
        return ground
    }

    private var isGone: MirrorError { .refused("The namespace \"\(mirror.namespace)\" no longer exists.") }

    /// Returns the tree before the log's oldest entry.
    private func groundBefore(_ record: NamespaceRecord) throws -> HistoryBase {
        let oldest = record.retainedFrom - 1
        let pattern = definition.pattern
        guard oldest > 0 else {
            return HistoryBase(
                position: try position(record, 0), at: nil, each: { _ in },
                values: { $0.map { _ in .null } })
        }
        var tree = try past(record, oldest)
        let seq = max(oldest, tree.seq)
        try tree.advance(to: seq)
        let past = tree
        return HistoryBase(
            position: try position(record, seq), at: try source.entryTime(record.id, seq),
            each: { body in
                // The tree counts in the budget until it has been read.
                try withExtendedLifetime(past) {
                    try RecordChange.each(in: past.root, pattern, part: 0, []) { keys, record in
                        try body(keys, record, nil)
                    }
                }
            }, values: { some in withExtendedLifetime(past) { some.map { past.root[pattern.path(of: $0)] } } })
    }

    private func position(_ record: NamespaceRecord, _ seq: Int64) throws -> LogPosition {
        LogPosition(seq: seq, batch: try source.history(record.id, at: seq)?.batch(of: seq))
    }

    private func past(_ record: NamespaceRecord, _ seq: Int64) throws -> PastTree {
        do {
            return try PastTree(source, record, for: seq, within: definition.pattern.base, in: room)
        } catch ReplayError.notRetained(_, let oldest) {
            return try PastTree(source, record, for: oldest, within: definition.pattern.base, in: room)
        }
    }

    /// Returns the current tree.
    private func groundNow(_ record: NamespaceRecord) throws -> HistoryBase {
        let (source, pattern, namespace) = (source, definition.pattern, record.id)
        return HistoryBase(
            position: try position(record, record.head), at: try source.entryTime(namespace, record.head),
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
