import LogStore
import Runtime
import Tree

/// With which trees lanes begin, and what becomes of these: they share as much as they can with the gateway's own one, and count where they
/// don't.
extension NamespaceReader {
    // MARK: Where a feed begins

    /// The tree of an entry.
    ///
    /// - Parameter base: one of before that was made on the same connection just now: no other history has come between.
    func tree(at seq: Int64, on connection: LogConnection, from base: TreeVersion?) throws -> Node {
        guard seq > 0 else { return .null }
        if let known = core.trees.tree(of: namespaceID, at: seq), known.seq <= seq {
            // What is shared with the gateway is not to be packed here.
            return try advance(PastTree(connection, namespaceID, root: known.root, at: known.seq), to: seq)
        }
        guard let record = try connection.namespace(id: namespaceID) else {
            throw LogStoreError.unknownNamespace(name)
        }
        let start = try PastTree.start(connection, record, for: seq)
        // Where it isn't a long way from there: feeds that are taken over together share what they have.
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

    func room() -> any TreeRoom {
        core.trees.room { [weak core] in core.map { !$0.stopsNow } ?? false }
    }

    // MARK: While it is read

    /// Counts the lanes' trees now and then. Where there is too little room, lanes whose feeds have had none for a while let go of theirs.
    func lookAtTrees() {
        let now = Clock.monotonicMilliseconds
        let leaving = laneTrees.look(
            {
                readings.indices.filter { !isShared(readings[$0].lane) }.map { index in
                    let reading = readings[index]
                    let isIdle =
                        now >= reading.keptUntil && now - reading.usedAt >= core.settings.idleLaneMilliseconds
                        && reading.lane.isFull && reading.lane.resting != nil
                    return LaneTrees.Lane(place: index, trees: reading.lane.trees, isIdle: isIdle)
                }
            }, gateway: { core.trees.tree(of: namespaceID, at: .max)?.root ?? .null }, in: room)
        for index in leaving.reversed() {
            guard let lane = readings[index].lane.resting else { continue }
            resting.append(lane)
            readings.remove(at: index)
        }
    }

    /// Makes the trees again of lanes that rest and have room, so that the next step reads on from there.
    ///
    /// - Returns: whether lanes were woken; some may be left for the next step.
    func wakeLanes(on connection: LogConnection) throws -> Bool {
        // Wait for the gateway's load: its tree may serve as the base.
        guard !resting.isEmpty, !core.trees.isComing(namespaceID) else { return false }
        let begin = Clock.monotonicMilliseconds
        var base: TreeVersion?
        var hasWoken = false
        while let place = nextToWake() {
            let lane = resting[place]
            let start = Clock.monotonicMilliseconds
            // Lanes that wake together share what they can, but others wait meanwhile.
            if hasWoken, start - begin >= core.settings.wakingMilliseconds { break }
            do {
                let root = try tree(at: lane.cursor.seq, on: connection, from: base)
                base = TreeVersion(seq: lane.cursor.seq, root: root)
                var reading = Reading(lane: FeedLane(lane, root: root), follower: follower(at: lane.cursor))
                let now = Clock.monotonicMilliseconds
                reading.keptUntil = now + core.settings.keepingFactor * (now - start + 1)
                readings.append(reading)
                laneTrees.hurry()
                hasWoken = true
            } catch {
                // A lost connection affects all lanes, and this lane may have caused it. Any other error concerns only this lane.
                guard connection.isOpen, !core.stopsNow else {
                    resting[place].failed(at: Clock.monotonicMilliseconds, core.settings)
                    throw error
                }
                restart(Set(lane.feeds.map(\.claim)), "\(error)")
            }
            resting.remove(at: place)
        }
        return hasWoken
    }

    /// The lane that rests at the earliest entry of those that have room.
    private func nextToWake() -> Int? {
        let now = Clock.monotonicMilliseconds
        return resting.indices.filter { resting[$0].hasRoom && resting[$0].restsUntil <= now }.min {
            resting[$0].cursor.seq < resting[$1].cursor.seq
        }
    }

    /// Whether the lane has nothing but a tree that the gateway keeps, too.
    private func isShared(_ lane: FeedLane) -> Bool {
        guard !lane.isWide, let known = core.trees.tree(of: namespaceID, at: lane.cursor.seq) else { return false }
        return known.root.isIdentical(to: lane.root)
    }

    /// Goes on from the gateway's own tree of the same entry, now and then: what is applied here and there shares ever less.
    func shareTree(_ index: Int) {
        let now = Clock.monotonicMilliseconds
        guard now - sharedAt >= 1_000 else { return }
        sharedAt = now
        let seq = readings[index].lane.cursor.seq
        guard let known = core.trees.tree(of: namespaceID, at: seq), known.seq == seq else { return }
        readings[index].lane.share(known.root)
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
