import LogStore
import Runtime
import Tree

/// With which trees lanes begin, and what becomes of these: they share as much as they can with the gateway's own one, and count where they
/// don't.
extension NamespaceReader {
    // MARK: Where a feed begins

    /// The tree of an entry, who counts it where it is not the gateway's own one, and how often that had been exchanged.
    func tree(at seq: Int64, on connection: LogConnection) throws -> (Node, TreeMeter?, Int?) {
        guard seq > 0 else { return (.null, nil, nil) }
        let exchanges = core.trees.standing(of: name)?.exchanges
        if let known = core.trees.tree(of: name, at: seq), known.seq <= seq {
            if known.seq == seq { return (known.root, nil, exchanges) }
            let tree = try advance(
                PastTree(
                    connection, namespaceID, root: known.root, at: known.seq,
                    meter: TreeMeter(room(), sharesBase: true)), to: seq)
            return (tree.root, tree.meter, exchanges)
        }
        guard let record = try connection.namespace(id: namespaceID) else {
            throw LogStoreError.unknownNamespace(name)
        }
        let start = try PastTree.start(connection, record, for: seq)
        // What another lane has is shared with it, where it isn't a long way from there.
        let base = readings.map(\.lane).filter { !$0.isWide && $0.cursor.seq <= seq }.max {
            $0.cursor.seq < $1.cursor.seq
        }
        if let base, base.cursor.seq >= min(start.seq, seq - Int64(base.root.rowCount)) {
            let tree = try advance(
                PastTree(
                    connection, namespaceID, root: base.root, at: base.cursor.seq,
                    meter: TreeMeter(room(), sharesBase: true)), to: seq)
            return (tree.root, tree.meter, nil)
        }
        let tree = try advance(PastTree(connection, record, for: seq, in: room()), to: seq)
        return (tree.root, tree.meter, nil)
    }

    private func advance(_ tree: PastTree, to seq: Int64) throws -> PastTree {
        var tree = tree
        try tree.advance(to: seq) { _ in
            if core.stopsNow { throw LogStoreError.stopped }
        }
        return tree
    }

    func room() -> any TreeRoom {
        core.trees.room { [weak core] in core.map { !$0.stopsNow } ?? false }
    }

    // MARK: While it is read

    /// Nobody takes the messages of a lane for now.
    func grewOld(_ index: Int) {
        readings[index].grewOld(core.trees.standing(of: name), now: Clock.coarseMilliseconds, in: room)
    }

    /// Goes on from the gateway's own tree of the same entry, now and then: what is applied here and there shares ever less.
    func shareTree(_ index: Int) {
        let now = Clock.monotonicMilliseconds
        guard now - sharedAt >= 1_000 else { return }
        sharedAt = now
        let seq = readings[index].lane.cursor.seq
        let exchanges = core.trees.standing(of: name)?.exchanges
        guard let known = core.trees.tree(of: name, at: seq), known.seq == seq else { return }
        readings[index].share(known.root, exchanges: exchanges)
    }

    /// Has the tree kept now and then, where the log has grown by more than there is in it.
    func keepTree() {
        guard let keptSeq, let lane = readings.first?.lane, !lane.isWide,
            lane.cursor.seq - keptSeq >= max(core.settings.entriesBetweenTrees, Int64(lane.root.rowCount))
        else { return }
        self.keptSeq = lane.cursor.seq
        keep(TreeVersion(seq: lane.cursor.seq, root: lane.root))
    }
}
