public import Tree

/// What the client has that the server has not confirmed since it was asked for it over this connection: from the file, from
/// before the connection was lost, from the client's accepted writes.
///
/// That takes accepted writes on. What the server tells itself doesn't: it sends its own data before it answers a write, and
/// others' later data may have come already. Its answer to a listen is about what the client had when it asked, so that the
/// writes that were taken on since are taken off before it is heard.
extension SyncTree {
    /// A listen is being sent, for the first time or again, with what the client has of it now.
    ///
    /// - Parameter resumes: whether it is to go on behind an entry. The answer then is all entries since, the client's own among them, one after
    ///   the other: they are taken together when the listen is complete, as each of them is older than what is shown.
    public func sent(_ spec: QuerySpec, tag: ListenTag?, resumes: Bool = false) {
        let has = serverValue(of: spec)
        let asked = Asked.waiting(has.isComplete ? has.node : nil)
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

    /// What the client had of a place when it asked for it, which the server's answer goes out from.
    public func askedValue(at path: Path) -> Node {
        guard let place = listeningPlace(above: path), case .waiting(let node?) = place.asked else {
            return serverValue(of: QuerySpec(path: path)).node
        }
        return node[path.dropFirst(place.path.depth)]
    }

    /// The server has answered the listen without a tag that is for a path: it tells all that the listen brings from now on.
    func heard(at path: Path, _ touched: inout Touched) {
        guard let place = listeningPlace(above: path), case .waiting(let asked) = place.asked else { return }
        // A part, where the client had nothing that it could be laid over: the rest is to come.
        if asked == nil, path != place.path {
            place.toldParts.insert(path)
            return
        }
        place.asked = .answered
        cache?.answered(QuerySpec(path: place.path), from: asked)
        guard let asked, serverValue(at: place.path).map({ !$0.isIdentical(to: asked) }) ?? true else { return }
        absorb(asked, at: place.path, isMerge: false, nil, &touched)
    }

    /// The same of a listen for a filtered query.
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

    /// The server has taken a write: those who listen but have not been sent the server's data keep what they see.
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

    /// A written value with those parts of it as they are that the server has told before the rest. Nil for a value that is in such a
    /// part.
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
        // Queries that the server has told nothing of choose from all that is there, as later writes may let more of it in.
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

    /// Whether somebody listens to the place, and the server has told nothing of it or of what is below.
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

    /// Returns whether all of the place is known. What the server tells of it itself stays as it is.
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
        // The answer to a get may have become what a query chooses from that the server tells of itself.
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

/// How far the server is with a listen.
enum Asked {
    /// It has not answered. With what the client had when it asked, where that was complete.
    case waiting(Node?)
    /// It tells what changes.
    case answered
}
