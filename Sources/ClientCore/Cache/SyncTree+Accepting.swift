public import Tree

/// The client's data that the server has not confirmed over this connection since the listen was sent: from the file,
/// from before the connection was lost, and from the client's accepted writes.
///
/// Accepted writes are added to this data. They are not added to data that the server sends itself: the server sends
/// its own data before it answers a write, and later data of other clients may already have arrived. The server's
/// answer to a listen refers to the data that the client had when it sent the listen, so the writes accepted since are
/// removed before the answer is applied.
extension SyncTree {
    /// Records that a listen is being sent, for the first time or again, with the client's present data for it.
    ///
    /// - Parameter resumes: whether the listen is to resume after an entry. The answer then consists of all entries
    ///   since, including the client's own, one after another. They are applied together when the listen is complete,
    ///   because each of them is older than the value shown.
    public func sent(_ spec: QuerySpec, tag: ListenTag?, resumes: Bool = false) {
        let has = serverValue(of: spec)
        let asked = ListenState.waiting(has.isComplete ? has.node : nil)
        cache?.asked(spec)
        if let tag {
            guard let view = tagged[tag]?.view else { return }
            view.asked = asked
            view.held = resumes ? [] : nil
        } else if let place = root.find(spec.path.keys[...]) {
            place.asked = asked
            place.held = resumes ? [] : nil
        }
    }

    /// Returns the client's data for a path when the listen was sent, on which the server's answer is based.
    public func askedValue(at path: Path) -> Node {
        guard let place = listeningPlace(above: path), case .waiting(let node?) = place.asked else {
            return serverValue(of: QuerySpec(path: path)).node
        }
        return node[path.dropFirst(place.path.depth)]
    }

    /// Records that the server has answered the listen without a tag that covers a path: from now on it sends all
    /// changes of the listen's data.
    func heard(at path: Path, _ touched: inout ChangedPaths) {
        guard let place = listeningPlace(above: path), case .waiting(let asked) = place.asked else { return }
        // This is a part of the data, and the client has no base value for it: the rest is still to come.
        if asked == nil, path != place.path {
            place.toldParts.insert(path)
            return
        }
        place.asked = .answered
        cache?.answered(QuerySpec(path: place.path), from: asked)
        guard let asked, serverValue(at: place.path).map({ !$0.isIdentical(to: asked) }) ?? true else { return }
        absorb(asked, at: place.path, isMerge: false, nil, &touched)
    }

    /// Records that the server has answered a listen for a filtered query.
    func heard(_ view: View, at path: Path) {
        guard case .waiting(let asked) = view.asked else { return }
        view.asked = .answered
        cache?.answered(QuerySpec(path: path, query: view.query), from: asked)
        guard let asked = asked?.withoutPriority else { return }
        if let own = view.own, !own.isAssumed, own.node == asked { return }
        view.own = ServerSet(node: asked, isComplete: true)
        view.ownChanges = nil
    }

    func listeningPlace(above path: Path) -> Place? {
        var place = root
        if place.isListening { return place }
        for key in path.keys {
            guard let below = place.children[key] else { return nil }
            if below.isListening { return below }
            place = below
        }
        return nil
    }

    // MARK: Accepted writes

    /// Applies an accepted write, so that listeners whose data the server has not sent keep the value they see.
    func assume(_ value: Node, at path: Path) {
        guard let value = withToldParts(value, at: path) else { return }
        var place = root
        for (depth, key) in path.keys.enumerated() {
            let below = path.dropFirst(depth)
            if place.isTold || changeKnown(of: place, value, at: below) { return }
            for view in place.views where view.own != nil && !view.isTold {
                _ = take(value, at: below, view, place, trims: false)
                noteAssumed(view, place)
            }
            guard let next = place.children[key] else {
                guard depth == path.depth - 1, place.hasDefault, !path.namesPriority else { return }
                return setKnown(value, at: place.descend(below), nil)
            }
            place = next
        }
        assume(value, for: place)
    }

    /// Returns a written value with those parts replaced that the server has already sent. Returns nil for a value
    /// inside such a part.
    private func withToldParts(_ value: Node, at path: Path) -> Node? {
        var parts = listeningPlace(above: path)?.toldParts ?? []
        root.find(path.keys[...])?.forEachBelow { below in
            parts.formUnion(below.toldParts)
            return true
        }
        var value = value
        for part in parts where part.contains(path) || path.contains(part) {
            guard !part.contains(path) else { return nil }
            if let told = serverValue(at: part) { value = value.replacing(part.dropFirst(path.depth), with: told) }
        }
        return value
    }

    private func assume(_ value: Node, for place: Place) {
        if place.isTold || changeKnown(of: place, value, at: .root) { return }
        // Queries for which the server has sent nothing select from the whole local data, as later writes may add more
        // of it to the selection.
        if place.hasDefault || (place.parent?.hasDefault ?? false) || isUntold(place) {
            for view in place.views { cache?.doubt(QuerySpec(path: place.path, query: view.query)) }
            return setKnown(value, at: place, nil)
        }
        for view in place.views where view.own != nil && !view.isTold {
            var query = view.query
            query.limit = nil
            view.own?.node = query.select(from: value).withoutPriority
            view.ownChanges = nil
            place.index?.note(view)
            noteAssumed(view, place)
        }
        for (key, below) in place.children { assume(value.child(key), for: below) }
    }

    /// Whether the path has listeners, and the server has sent nothing for it or for paths below it.
    private func isUntold(_ place: Place) -> Bool {
        guard !place.views.isEmpty, !place.views.contains(where: \.isTold) else { return false }
        var isUntold = true
        place.forEachBelow { below in
            if below.isTold || below.views.contains(where: \.isTold) { isUntold = false }
            return isUntold
        }
        return isUntold
    }

    private func noteAssumed(_ view: View, _ place: Place) {
        view.own?.mark = nil
        view.own?.isAssumed = true
        cache?.doubt(QuerySpec(path: place.path, query: view.query))
    }

    /// Changes the known value, and returns whether the path's whole value is known. Parts that the server itself has
    /// sent stay unchanged.
    private func changeKnown(of place: Place, _ value: Node, at path: Path) -> Bool {
        guard let known = place.known else { return false }
        var changed = known.replacing(path, with: value)
        var written: Place? = place
        for key in path.keys {
            written = written?.children[key]
            if written?.isTold == true { return true }
        }
        written?.forEachBelow { below in
            guard below.isTold else { return true }
            let rest = below.path.dropFirst(place.path.depth)
            changed = changed.replacing(rest, with: known[rest])
            return false
        }
        // The answer to a get may have become a child that a query selects and for which the server itself sends
        // changes.
        for view in place.views where view.isTold {
            for key in path.keys.first.map({ [$0] }) ?? known.childKeys + changed.childKeys {
                let (before, after) = (known.child(key), changed.child(key))
                guard !before.isNull && view.query.admits(key, before) || !after.isNull && view.query.admits(key, after)
                else { continue }
                changed = changed.replacingChild(key, with: before)
            }
        }
        place.known = changed
        place.mark = nil
        cache?.doubt(QuerySpec(path: place.path))
        return true
    }
}

/// The state of a listen at the server.
enum ListenState {
    /// The server has not answered. With the client's data when the listen was sent, if that was complete.
    case waiting(Node?)
    /// The server sends the changes.
    case answered
}
