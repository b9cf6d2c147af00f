import Tree
import Wire

/// As of which entry of the server's log data is.
extension SyncTree {
    /// Says with a view's new events as of which entry they are.
    func mark(_ events: inout [DataEvent], from first: Int, of view: View, at place: Place) {
        guard first < events.count, let seq = seq(of: view, at: place) else { return }
        for index in first..<events.count { events[index].seq = seq }
    }

    /// Nil where what is shown isn't complete, or holds what the server has not answered.
    private func seq(of view: View, at place: Place) -> Int64? {
        guard view.isComplete else { return nil }
        let mark = view.usesOwn ? view.own?.mark : place.cover?.mark
        guard let mark, !writes.concern(place.path) else { return nil }
        return mark.seq
    }

    /// As of which entry what a query would show is; nil where it holds what the server has not answered, or where that
    /// isn't known.
    public func localSeq(of spec: QuerySpec) -> Int64? {
        guard !writes.concern(spec.path) else { return nil }
        if let cover = root.nearest(spec.path).cover { return cover.mark?.seq }
        return root.find(spec.path.keys[...])?.view(of: spec.query)?.own?.mark?.seq
    }

    /// By which the server may let a listen go on where it was; nil where it has to be asked with hashes.
    public func resumption(of spec: QuerySpec) -> String? {
        guard let place = root.find(spec.path.keys[...]) else { return nil }
        if spec.query.selectsAll { return place.known == nil ? nil : place.mark?.resumption }
        guard let own = place.view(of: spec.query)?.own, own.isComplete else { return nil }
        return own.mark?.resumption
    }

    /// The server has told all listens everything up to an entry.
    public func reached(_ seq: Int64) {
        for (_, view) in tagged.values {
            let mark = view.own?.mark?.reached(seq)
            view.own?.mark = mark
        }
        reached(seq, root)
    }

    private func reached(_ seq: Int64, _ place: Place) {
        // Nobody is asked for anything below: the server's data is held here.
        if place.isListening {
            place.mark = place.mark?.reached(seq)
            return
        }
        for child in place.children.values { reached(seq, child) }
    }

    /// Keeps the mark with the listen that the server has sent data of.
    func note(_ mark: LogMark?, at path: Path) {
        guard let cache else { return }
        guard mark != nil else { return cache.forgetMarks(at: path) }
        var place = root
        var depth = 0
        while !place.isListening {
            guard depth < path.depth, let next = place.children[path[depth]] else { return }
            place = next
            depth += 1
        }
        cache.note(mark, of: QuerySpec(path: place.path))
    }
}
