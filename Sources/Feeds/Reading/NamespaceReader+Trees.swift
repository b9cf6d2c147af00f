import LogStore
import Runtime
import Tree

/// Builds the initial trees of shared readers and manages their memory. The trees share as many nodes as possible with the
/// gateway's own tree; the rest counts against the budget.
extension NamespaceReader {
    // MARK: Initial trees

    /// Returns the tree at an entry.
    ///
    /// - Parameter base: A tree built just before on the same connection, so that the history cannot have changed in between.
    func tree(at seq: Int64, on connection: LogConnection, from base: TreeVersion?) throws -> Node {
        guard seq > 0 else { return .null }
        if let known = core.trees.tree(of: namespaceID, at: seq), known.seq <= seq {
            // Without a budget: nodes shared with the gateway's tree must not be paged out here.
            return try advance(PastTree(connection, namespaceID, root: known.root, at: known.seq), to: seq)
        }
        guard let record = try connection.namespace(id: namespaceID) else {
            throw LogStoreError.unknownNamespace(name)
        }
        let start = try PastTree.start(connection, record, for: seq)
        // Builds on the base if it is near enough, so that feeds that are taken over together share nodes.
        if let base, base.seq <= seq, base.seq >= record.retainedFrom - 1,
            base.seq >= min(start.seq, seq - Int64(base.root.rowCount))
        {
            let meter = TreeMeter(room(), sharesBase: true)
            return try advance(PastTree(connection, namespaceID, root: base.root, at: base.seq, meter: meter), to: seq)
        }
        return try advance(PastTree(connection, record, for: seq, in: room()), to: seq)
    }

    private func advance(_ tree: PastTree, to seq: Int64) throws -> Node {
        var tree = tree
        guard tree.seq < seq else { return tree.root }
        try tree.advance(to: seq) { _ in
            if core.stopsNow { throw LogStoreError.stopped }
        }
        return tree.root
    }

    func room() -> any TreeMemoryBudget {
        core.trees.room { [weak core] in core.map { !$0.stopsNow } ?? false }
    }

    // MARK: Memory

    /// Counts the memory of the shared readers' trees if due. If the budget is exceeded, releases the trees of readers whose feeds
    /// have had no room for a while.
    func lookAtTrees() {
        let now = Clock.monotonicMilliseconds
        let leaving = readerTrees.look(
            {
                readings.indices.filter { !isShared(readings[$0].reader) }.map { index in
                    let reading = readings[index]
                    let isIdle =
                        now >= reading.keptUntil && now - reading.usedAt >= core.settings.idleReaderMilliseconds
                        && reading.reader.isFull && reading.reader.resting != nil
                    return SharedReaderTrees.Reader(index: index, trees: reading.reader.trees, isIdle: isIdle)
                }
            }, gateway: { core.trees.tree(of: namespaceID, at: .max)?.root ?? .null }, in: room)
        for index in leaving.reversed() {
            guard let reader = readings[index].reader.resting else { continue }
            resting.append(reader)
            readings.remove(at: index)
        }
    }

    /// Rebuilds the trees of resting readers that have room. The next step resumes them.
    ///
    /// - Returns: Whether a reader was woken. Other readers may remain for the next step.
    func wakeReaders(on connection: LogConnection) throws -> Bool {
        // Wait until the gateway has loaded the namespace: its tree may serve as the base.
        guard !resting.isEmpty, !core.trees.isComing(namespaceID) else { return false }
        let begin = Clock.monotonicMilliseconds
        var base: TreeVersion?
        var hasWoken = false
        while let index = nextToWake() {
            let reader = resting[index]
            let start = Clock.monotonicMilliseconds
            // Readers that wake together share nodes, but active readers are waiting meanwhile.
            if hasWoken, start - begin >= core.settings.wakingMilliseconds { break }
            do {
                let root = try tree(at: reader.cursor.seq, on: connection, from: base)
                base = TreeVersion(seq: reader.cursor.seq, root: root)
                var reading = Reading(reader: SharedReader(reader, root: root), follower: follower(at: reader.cursor))
                let now = Clock.monotonicMilliseconds
                reading.keptUntil = now + core.settings.keepingFactor * (now - start + 1)
                readings.append(reading)
                readerTrees.hurry()
                hasWoken = true
            } catch {
                // A lost connection affects all readers, and this reader may have caused it. Any other error concerns only this reader.
                guard connection.isOpen, !core.stopsNow else {
                    resting[index].failed(at: Clock.monotonicMilliseconds, core.settings)
                    throw error
                }
                restart(Set(reader.feeds.map(\.claim)), "\(error)")
            }
            resting.remove(at: index)
        }
        return hasWoken
    }

    /// Returns the index of the resting reader at the earliest entry, among the readers that have room.
    private func nextToWake() -> Int? {
        let now = Clock.monotonicMilliseconds
        return resting.indices.filter { resting[$0].hasRoom && resting[$0].restsUntil <= now }.min {
            resting[$0].cursor.seq < resting[$1].cursor.seq
        }
    }

    /// Returns whether the reader's only tree is also one of the gateway's trees.
    private func isShared(_ reader: SharedReader) -> Bool {
        guard !reader.isWide, let known = core.trees.tree(of: namespaceID, at: reader.cursor.seq) else { return false }
        return known.root.isIdentical(to: reader.root)
    }

    /// Replaces the reader's tree by the gateway's own tree at the same entry, at most once a second. Without this, the two trees
    /// share ever fewer nodes as both apply entries.
    func shareTree(_ index: Int) {
        let now = Clock.monotonicMilliseconds
        guard now - sharedAt >= 1_000 else { return }
        sharedAt = now
        let seq = readings[index].reader.cursor.seq
        guard let known = core.trees.tree(of: namespaceID, at: seq), known.seq == seq else { return }
        readings[index].reader.share(known.root)
    }

    /// Has the tree stored if enough entries have been committed since the last stored tree.
    func keepTree() {
        guard let keptSeq, let reader = readings.first?.reader, !reader.isWide,
            reader.cursor.seq - keptSeq >= max(core.settings.entriesBetweenTrees, Int64(reader.root.rowCount))
        else { return }
        self.keptSeq = reader.cursor.seq
        keep(TreeVersion(seq: reader.cursor.seq, root: reader.root))
    }
}
