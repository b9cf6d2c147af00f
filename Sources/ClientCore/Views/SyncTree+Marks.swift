import Tree
import Wire

/// The positions of data in the server's log.
extension SyncTree {
    /// Sets the log position of a view's new events.
    func mark(_ events: inout [DataEvent], from first: Int, of view: View, at syncPoint: SyncPoint) {
        guard first < events.count, let seq = seq(of: view, at: syncPoint) else { return }
        for index in first..<events.count { events[index].seq = seq }
    }

    /// Returns nil if the shown value is not complete, or contains unanswered writes.
    private func seq(of view: View, at syncPoint: SyncPoint) -> Int64? {
        guard view.isComplete else { return nil }
        let mark = view.usesOwn ? view.own?.mark : syncPoint.cover?.mark
        guard let mark, !writes.concern(syncPoint.path) else { return nil }
        return mark.seq
    }

    /// Returns the log position of the value that a query would show; nil if the value contains unanswered writes, or
    /// if the position is unknown.
    public func localSeq(of spec: QuerySpec) -> Int64? {
        guard !writes.concern(spec.path) else { return nil }
        if let cover = root.nearest(spec.path).cover { return cover.mark?.seq }
        return root.find(spec.path.keys[...])?.view(of: spec.query)?.own?.mark?.seq
    }

    /// Returns the text by which the server may resume a listen; nil if the listen has to be sent with hashes.
    public func resumption(of spec: QuerySpec) -> String? {
        guard let syncPoint = root.find(spec.path.keys[...]) else { return nil }
        if spec.query.selectsAll { return syncPoint.known == nil ? nil : syncPoint.mark?.resumption }
        guard let own = syncPoint.view(of: spec.query)?.own, own.isComplete else { return nil }
        return own.mark?.resumption
    }

    /// Records that the server has sent everything up to an entry to all listens.
    public func reached(_ seq: Int64) {
        for (_, view) in tagged.values {
            let mark = view.own?.mark?.reached(seq)
            view.own?.mark = mark
        }
        reached(seq, root)
    }

    private func reached(_ seq: Int64, _ syncPoint: SyncPoint) {
        // There are no listens below: the server's data is stored here.
        if syncPoint.isListening {
            syncPoint.mark = syncPoint.mark?.reached(seq)
            return
        }
        for child in syncPoint.children.values { reached(seq, child) }
    }

    /// Stores the mark of the listen for which the server has sent data.
    func note(_ mark: LogMark?, at path: Path) {
        guard let cache else { return }
        guard mark != nil else { return cache.forgetMarks(at: path) }
        var syncPoint = root
        var depth = 0
        while !syncPoint.isListening {
            guard depth < path.depth, let next = syncPoint.children[path[depth]] else { return }
            syncPoint = next
            depth += 1
        }
        cache.note(mark, of: QuerySpec(path: syncPoint.path))
    }
}
